"""Download and remove models.

A download goes into a hidden folder of the first folder of STOA_MODELS_DIR, and becomes a model by one rename.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec
import structlog
from django.conf import settings

from inference.downloads.selection import Repository, RepositoryFile, choose_files
from inference.engine import HostUnavailable
from inference.registry.catalog import CatalogModel, model_format, read_catalog
from inference.registry.services import find_model, unload_model
from shared.accounts.models import User
from shared.api.errors import ApiError

DOWNLOADS_FOLDER = ".downloads"
ORIGIN_FILE = "download.json"  # in the folder of each downloaded model
CHUNK_BYTES = 1024 * 1024
GGUF_SUFFIX = ".gguf"

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

logger = structlog.get_logger(__name__)


class Progress(Protocol):
    """A display of a download's progress."""

    def begin(self, model_id: str, total: int) -> None: ...
    def advance(self, count: int) -> None: ...


class Origin(msgspec.Struct, frozen=True):
    """The repository, commit and files that a model was downloaded from."""

    repo_id: str
    commit: str
    files: list[str]


@dataclass(frozen=True, kw_only=True)
class DownloadResult:
    """A model that is on this machine now. `was_downloaded_before`: nothing had to be downloaded."""

    model_id: str
    path: Path
    repo_id: str
    commit: str
    size_bytes: int
    was_downloaded_before: bool


def download_model(
    *,
    repo_id: str,
    revision: str | None = None,
    include: Sequence[str] = (),
    quantize: str | None = None,
    name: str | None = None,
    progress: Progress,
) -> DownloadResult:
    """Download a model, and check every file against the hash that the hub reported. An interrupted download resumes.

    name: the model's id; None is the repository's name. Raise ApiError: 400, 403, 404, 409 if another model has this
    id, 503 if the hub does not answer, 507 if the disk is full.
    """
    model_id = repo_id.rpartition("/")[2] if name is None else name
    _check_id(model_id)
    from inference.downloads import hub  # huggingface_hub takes 0.2 s, which no other command of the CLI needs

    repository = hub.read_repository(repo_id, revision)
    files = choose_files(repository.files, include=include, quantize=quantize)
    origin = Origin(repository.id, repository.commit, [file.path for file in files])
    folder = _download_root() / model_id
    total = sum(file.size for file in files)
    with _locked(model_id) as growing:
        was_downloaded_before = _read_origin(folder) == origin
        if not was_downloaded_before:
            _require_free_name(folder, model_id)
            progress.begin(model_id, total)
            _download_files(growing, repository, files, progress)
            (growing / ORIGIN_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(origin)))
            _publish(growing, folder)
            logger.info("model_downloaded", model=model_id, repository=repository.id, commit=repository.commit)
    return DownloadResult(
        model_id=model_id,
        path=folder,
        repo_id=repository.id,
        commit=repository.commit,
        size_bytes=total,
        was_downloaded_before=was_downloaded_before,
    )


def add_model(*, source: Path, name: str | None = None) -> CatalogModel:
    """Copy a model's folder or GGUF file into the first folder of STOA_MODELS_DIR, and return its entry there.

    name: the model's id; None is the source's name. Raise ApiError: 400 if there is no model, 409 if another model has
    this id, 507 if it cannot be copied.
    """
    source = source.resolve()
    model_id = source.name if name is None else name
    if source.is_file() and not model_id.endswith(GGUF_SUFFIX):
        model_id += GGUF_SUFFIX
    _check_id(model_id)
    if model_format(source) is None:
        what = (
            "is no GGUF file" if source.is_file() else "has neither config.json nor adapter_config.json nor GGUF files"
        )
        raise ApiError(400, f"{source} {what}, so there is no model.")
    target = _download_root() / model_id
    with _locked(model_id) as growing:
        _require_free_name(target, model_id)
        shutil.rmtree(growing)
        try:
            if source.is_dir():
                shutil.copytree(source, growing)  # links, as in the cache of the hub, become the files themselves
            else:
                shutil.copyfile(source, growing)
            _publish(growing, target)
        except (OSError, shutil.Error) as error:
            shutil.rmtree(growing) if growing.is_dir() else growing.unlink(missing_ok=True)
            raise ApiError(507, f"{source} cannot be copied to {target.parent}: {error}.") from None
    logger.info("model_added", model=model_id)
    return read_catalog()[model_id]


async def remove_model(*, model_id: str, actor: User | None, now: datetime) -> None:
    """Unload a model on every machine after its running requests, and delete its files on this machine.

    Raise ApiError MODEL_NOT_FOUND, or 403 for a model outside the folders of STOA_MODELS_DIR.
    """
    path = (await find_model(model_id)).path
    if path is None or path.parent not in settings.MODELS_DIRS:
        raise ApiError(403, f"{model_id} is not in a folder of STOA_MODELS_DIR, so its files are not deleted.")
    with suppress(HostUnavailable):  # without a model host no model runs
        await unload_model(model_id=model_id, force=False, actor=actor, now=now)
    await asyncio.to_thread(_delete, path)
    logger.info("model_removed", model=model_id)


def _check_id(model_id: str) -> None:
    if not _MODEL_ID.fullmatch(model_id):
        raise ApiError(
            400,
            f"{model_id[:100]!r} is not a model id. Use up to 100 letters, digits and . _ -, a letter or digit first.",
        )


def _delete(path: Path) -> None:
    """Delete a model: rename it out of sight at once, then delete its files. A link's target is never deleted."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    hidden = path.parent / DOWNLOADS_FOLDER
    hidden.mkdir(exist_ok=True)
    removed = hidden / f"{path.name}-removed-{secrets.token_hex(4)}"
    path.rename(removed)
    shutil.rmtree(removed)


def _download_root() -> Path:
    if not settings.MODELS_DIRS:
        raise ApiError(400, "There is no folder to download into. Set STOA_MODELS_DIR.")
    folder: Path = settings.MODELS_DIRS[0]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _locked(model_id: str) -> Iterator[Path]:
    """Lock a model's download, and yield its folder. Raise ApiError 409 if another process downloads it."""
    hidden = _download_root() / DOWNLOADS_FOLDER
    hidden.mkdir(exist_ok=True)
    growing = hidden / model_id
    with (hidden / f"{model_id}.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ApiError(409, f"{model_id} is being downloaded by another command. Wait for it to end.") from None
        if growing.is_file():  # of a copy that was interrupted
            growing.unlink()
        growing.mkdir(exist_ok=True)
        yield growing


def _require_free_name(folder: Path, model_id: str) -> None:
    if os.path.lexists(folder):
        raise ApiError(
            409, f"Another model {model_id} exists. Remove it with `stoa models remove`, or choose a --name."
        )


def _download_files(growing: Path, repository: Repository, files: list[RepositoryFile], progress: Progress) -> None:
    """Download the files that are missing into the folder, and delete all others."""
    names = {file.path for file in files}
    _delete_others(growing, names | {f"{_partial(file)}" for file in files})
    missing = [file for file in files if not _is_complete(growing / file.path, file)]
    for file in files:
        if file not in missing:
            progress.advance(file.size)
    missing_bytes = sum(file.size for file in missing)
    if missing_bytes > shutil.disk_usage(growing).free:
        raise ApiError(
            507, f"{growing.parent.parent} has no space for {missing_bytes} bytes. Free some space and try again."
        )
    for file in missing:
        _download_file(growing, repository, file, progress)
    _delete_others(growing, names)


def _download_file(growing: Path, repository: Repository, file: RepositoryFile, progress: Progress) -> None:
    from inference.downloads import hub

    complete, partial = growing / file.path, growing / _partial(file)
    complete.parent.mkdir(exist_ok=True)
    with partial.open("ab") as into:
        if into.tell() > file.size:
            into.seek(0)
            into.truncate()
        progress.advance(into.tell())
        hub.download_file(repository, file, into, advance=progress.advance)
        into.flush()
        os.fsync(into.fileno())
    if not _is_complete(partial, file):
        partial.unlink()
        raise ApiError(502, f"{file.path} does not have the hash that the hub reported, and was deleted. Try again.")
    partial.rename(complete)


def _partial(file: RepositoryFile) -> str:
    """Return the name of the partial file. It has the hash: a partial file of another version is never resumed."""
    return f"{file.path}.{(file.sha256 or file.git_blob)[:16]}.part"


def _is_complete(path: Path, file: RepositoryFile) -> bool:
    """Return whether a file on disk has the hash that the hub reported."""
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == (file.sha256 or file.git_blob)


def _delete_others(growing: Path, names: set[str]) -> None:
    for path in [path for path in growing.rglob("*") if not path.is_dir()]:
        if str(path.relative_to(growing)) not in names:
            path.unlink()


def _publish(growing: Path, folder: Path) -> None:
    """Flush the folder to the disk, then rename it to the model's name."""
    for path in [growing, *(path for path in growing.rglob("*"))]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    growing.rename(folder)


def _read_origin(folder: Path) -> Origin | None:
    try:
        return msgspec.json.decode((folder / ORIGIN_FILE).read_bytes(), type=Origin)
    except (OSError, msgspec.DecodeError):
        return None
