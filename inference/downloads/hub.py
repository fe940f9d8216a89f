"""The Hugging Face Hub, as HF_ENDPOINT, HF_TOKEN and the other HF_ settings say where and how: its lists and files."""

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

from inference.downloads.selection import RepositoryFile
from shared.api.errors import ApiError

constants.HF_HUB_DISABLE_TELEMETRY = True  # the library would tell the hub who is asking

ANSWERS_WITHIN_S = 30.0
MAX_FILE_COUNT = 10_000
TRIES = 5  # of a connection that brings nothing
PAUSE_S = 1.0
PARTIAL_CONTENT = 206

Advance = Callable[[int], None]

_REPOSITORY = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """The files of a repository at one commit."""

    id: str
    commit: str
    files: list[RepositoryFile]


def read_repository(repo_id: str, revision: str | None) -> Repository:
    """ApiError 400: no such name can be; 404: it is not there; 403: it wants a token; 503: the hub does not answer."""
    if not _REPOSITORY.fullmatch(repo_id) or ".." in repo_id:
        raise ApiError(400, f"{repo_id[:100]!r} is no repository: write it as ORGANISATION/NAME.")
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise ApiError(400, f"{revision[:100]!r} is no revision: give a branch, a tag or a commit.")
    with _hub_errors(repo_id):
        try:
            told = HfApi().model_info(repo_id, revision=revision, files_metadata=True, timeout=ANSWERS_WITHIN_S)
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # no JSON, or other JSON than a hub's
            raise _useless(repo_id) from error
    files = [_file(sibling) for sibling in told.siblings or []]
    if not _is(_COMMIT, told.sha) or len(files) > MAX_FILE_COUNT:
        raise _useless(repo_id)
    return Repository(id=repo_id, commit=str(told.sha), files=[file for file in files if file is not None])


def fetch(repository: Repository, file: RepositoryFile, into: BinaryIO, *, advance: Advance) -> None:
    """Append to `into` what it lacks of a file. ApiError as above.

    Where the connection breaks off it is taken up again; the token stays with the hub when that redirects to storage.
    """
    tries = 0
    with _hub_errors(repository.id):
        while (had := into.tell()) < file.size:
            try:
                _append(repository, file, into, advance)
            except httpx2.TransportError:
                tries = 1 if into.tell() > had else tries + 1
                if tries >= TRIES:
                    raise
                time.sleep(PAUSE_S)


def _append(repository: Repository, file: RepositoryFile, into: BinaryIO, advance: Advance) -> None:
    url = hf_hub_url(repository.id, file.path, revision=repository.commit)
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if have := into.tell():
        headers["Range"] = f"bytes={have}-"
    with get_session().stream("GET", url, headers=headers, timeout=ANSWERS_WITHIN_S) as answer:
        hf_raise_for_status(answer)
        if have and answer.status_code != PARTIAL_CONTENT:
            into.seek(0)
            into.truncate()
            advance(-have)
        for piece in answer.iter_bytes():
            if into.tell() + len(piece) > file.size:
                raise ApiError(502, f"{file.path} is larger than the hub said it would be.")
            into.write(piece)
            advance(len(piece))
    if into.tell() < file.size:
        raise httpx2.RemoteProtocolError("it ended early")


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    try:
        yield
    except GatedRepoError:
        raise ApiError(
            403, f"{repo_id} is for those who asked for it: set HF_TOKEN to a token that may read it."
        ) from None
    except RevisionNotFoundError:
        raise ApiError(404, f"{repo_id} has no such revision.") from None
    except RepositoryNotFoundError:
        raise ApiError(404, f"There is no repository {repo_id}, or it is private: then set HF_TOKEN.") from None
    except OfflineModeIsEnabled:
        raise ApiError(503, "HF_HUB_OFFLINE is set: nothing is downloaded.") from None
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ApiError(507, "The disk is full. What has come is kept.") from None
        raise ApiError(503, f"The hub does not give {repo_id}: {_plain(error)}. What has come is kept.") from error


def _plain(error: Exception) -> str:
    if isinstance(error, HfHubHTTPError):
        return f"status {error.response.status_code}"
    return type(error).__name__


def _useless(repo_id: str) -> ApiError:
    return ApiError(503, f"What the hub told of {repo_id} cannot be used: is HF_ENDPOINT the address of a hub?")


def _file(sibling: Any) -> RepositoryFile | None:
    """None where the hub does not tell what it must. Its digests become parts of names on this disk."""
    path, size, blob = sibling.rfilename, sibling.size, sibling.blob_id
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    is_told = isinstance(path, str) and path.isprintable() and isinstance(size, int) and size >= 0
    if not is_told or not _is(_COMMIT, blob) or (sibling.lfs and not _is(_SHA256, sha256)):
        return None
    return RepositoryFile(path=path, size=size, git_blob=blob, sha256=sha256)


def _is(form: re.Pattern[str], told: object) -> bool:
    return isinstance(told, str) and form.fullmatch(told) is not None
