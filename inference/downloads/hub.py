"""Client of the Hugging Face Hub: lists of files and their content. HF_ENDPOINT, HF_TOKEN and others configure it."""

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

from inference.downloads.selection import Repository, RepositoryFile
from shared.api.errors import ApiError

constants.HF_HUB_DISABLE_TELEMETRY = True  # the library would send data about this machine

REQUEST_TIMEOUT_SECONDS = 30.0
MAX_FILE_COUNT = 10_000
MAX_TRIES = 5  # without a new byte
RETRY_DELAY_SECONDS = 1.0
PARTIAL_CONTENT = 206

Advance = Callable[[int], None]

_REPOSITORY = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def read_repository(repo_id: str, revision: str | None) -> Repository:
    """Return the files of a repository.

    Raise ApiError: 400 for an invalid name, 403 if a token is missing, 404, or 503 if the hub does not answer.
    """
    if not _REPOSITORY.fullmatch(repo_id) or ".." in repo_id:
        raise ApiError(400, f"{repo_id[:100]!r} is not a repository id. Write it as ORGANIZATION/NAME.")
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise ApiError(400, f"{revision[:100]!r} is not a revision. Use a branch, a tag or a commit.")
    with _hub_errors(repo_id):
        try:
            info = HfApi().model_info(repo_id, revision=revision, files_metadata=True, timeout=REQUEST_TIMEOUT_SECONDS)
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # the response is not a hub's
            raise _invalid_response_error(repo_id) from error
    files = [_parse_file(sibling) for sibling in info.siblings or []]
    if not _matches(_COMMIT, info.sha) or len(files) > MAX_FILE_COUNT:
        raise _invalid_response_error(repo_id)
    return Repository(id=repo_id, commit=str(info.sha), files=[file for file in files if file is not None])


def download_file(repository: Repository, file: RepositoryFile, into: BinaryIO, *, advance: Advance) -> None:
    """Append the missing part of a file to `into`. Raise ApiError as `read_repository` does.

    A broken connection is resumed. The token is not sent on when the hub redirects to storage.
    """
    tries = 0
    with _hub_errors(repository.id):
        while (had := into.tell()) < file.size:
            try:
                _append(repository, file, into, advance)
            except httpx2.TransportError:
                tries = 1 if into.tell() > had else tries + 1
                if tries >= MAX_TRIES:
                    raise
                time.sleep(RETRY_DELAY_SECONDS)


def _append(repository: Repository, file: RepositoryFile, into: BinaryIO, advance: Advance) -> None:
    url = hf_hub_url(repository.id, file.path, revision=repository.commit)
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if have := into.tell():
        headers["Range"] = f"bytes={have}-"
    with get_session().stream("GET", url, headers=headers, timeout=REQUEST_TIMEOUT_SECONDS) as response:
        hf_raise_for_status(response)
        if have and response.status_code != PARTIAL_CONTENT:
            into.seek(0)
            into.truncate()
            advance(-have)
        for piece in response.iter_bytes():
            if into.tell() + len(piece) > file.size:
                raise ApiError(502, f"{file.path} is larger than the hub reported. Try again.")
            into.write(piece)
            advance(len(piece))
    if into.tell() < file.size:
        raise httpx2.RemoteProtocolError("the response ended early")


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    try:
        yield
    except GatedRepoError:
        raise ApiError(
            403, f"{repo_id} is gated. Request access to it on the hub, and set HF_TOKEN to a token that may read it."
        ) from None
    except RevisionNotFoundError:
        raise ApiError(404, f"{repo_id} does not have this revision.") from None
    except RepositoryNotFoundError:
        raise ApiError(
            404, f"The repository {repo_id} does not exist, or it is private. For a private one, set HF_TOKEN."
        ) from None
    except OfflineModeIsEnabled:
        raise ApiError(503, "HF_HUB_OFFLINE is set. Unset it to download models.") from None
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ApiError(
                507, "The disk is full. Free some space and run the command again; it resumes the download."
            ) from None
        raise ApiError(
            503, f"The hub failed to send {repo_id}: {_reason(error)}. Run the command again; it resumes."
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, HfHubHTTPError):
        return f"status {error.response.status_code}"
    return type(error).__name__


def _invalid_response_error(repo_id: str) -> ApiError:
    return ApiError(503, f"The hub's response about {repo_id} is invalid. Check that HF_ENDPOINT is the URL of a hub.")


def _parse_file(sibling: Any) -> RepositoryFile | None:
    """Return the file, or None for an invalid entry. File names on this disk contain its digests."""
    path, size, blob = sibling.rfilename, sibling.size, sibling.blob_id
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    is_valid = isinstance(path, str) and path.isprintable() and isinstance(size, int) and size >= 0
    if not is_valid or not _matches(_COMMIT, blob) or (sibling.lfs and not _matches(_SHA256, sha256)):
        return None
    return RepositoryFile(path=path, size=size, git_blob=blob, sha256=sha256)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
