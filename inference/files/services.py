"""Storing and removing files, such that no content is without a row, and no file that can be seen without its content.

A file's row says that it is being stored before the first byte is; it can be seen once the last one is. Deleting hides
it first. What a crash leaves between two steps has a time at which `sweep_files` clears it.
"""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

import structlog
from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.db import connection, transaction
from django.db.models import Sum

from inference.files.models import StoredFile
from shared.accounts.models import User
from shared.accounts.services import lock_active
from shared.api.errors import ApiError

STORED_WITHIN = timedelta(hours=1)
DELETED_KNOWN_FOR = timedelta(hours=1)
MOST_A_ROUND = 1000

logger = structlog.get_logger(__name__)


def upload_file(
    *, owner: User, content: "UploadedFile[Any]", kept_for: timedelta | None = None, now: datetime
) -> StoredFile:
    """Stores what somebody sent, for a batch. `kept_for`: other than the setting. Raises ApiError 413 for one that is
    too large, or for which its owner has no room left, and 503."""
    if content.size is None or content.size > settings.MAX_FILE_BYTES:
        raise too_large()
    with transaction.atomic():
        lock_active(owner)
        purpose = StoredFile.Purpose.BATCH
        file = _begin(owner=owner, purpose=purpose, name=content.name or "", size=content.size, now=now)
    _require_room(file)
    _store(file, content)
    finish_file(file=file, expires_at=now + (kept_for or settings.BATCH_KEPT_FOR))
    return file


def write_file(*, owner: User, name: str, lines: Iterable[bytes], now: datetime) -> StoredFile:
    """Stores what a batch has written; the lines pass through the disk. It is not there until `finish_file`, for which
    there is an hour."""
    with TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR) as written:
        for line in lines:
            written.write(line)
        size = written.tell()
        file = _begin(owner=owner, purpose=StoredFile.Purpose.BATCH_OUTPUT, name=name, size=size, now=now)
        _store(file, written)
    return file


def finish_file(*, file: StoredFile, expires_at: datetime) -> None:
    """From now on the file is there, or from the caller's commit on. Raises ApiError 503 when that took too long."""
    unfinished = StoredFile.objects.filter(pk=file.pk, status=StoredFile.Status.STORING)
    if not unfinished.update(status=StoredFile.Status.STORED, expires_at=expires_at):
        raise ApiError(503, "Storing the file took too long. Try again.", headers={"Retry-After": "1"})
    file.status, file.expires_at = StoredFile.Status.STORED, expires_at


def _require_room(file: StoredFile) -> None:
    """Counted with the file itself, so that uploads at the same time cannot all fit into the same room."""
    theirs = StoredFile.objects.filter(owner=file.owner).exclude(status=StoredFile.Status.DELETED)
    if theirs.aggregate(size=Sum("size"))["size"] > settings.FILES_BYTES_PER_USER:
        file.delete()
        message = f"Your files may have {settings.FILES_BYTES_PER_USER} bytes together: delete some, and send it again."
        raise ApiError(413, message, details={"field": "file"})


def too_large() -> ApiError:
    return ApiError(
        413, f"The file is larger than {settings.MAX_FILE_BYTES} bytes: split it.", details={"field": "file"}
    )


def _begin(*, owner: User, purpose: StoredFile.Purpose, name: str, size: int, now: datetime) -> StoredFile:
    return StoredFile.objects.create(
        file_id=f"file-{secrets.token_hex(12)}",
        owner=owner,
        purpose=purpose,
        name=name,
        size=size,
        created_at=now,
        expires_at=now + STORED_WITHIN,
    )


def _store(file: StoredFile, content: "IO[bytes] | File[Any]") -> None:
    content.seek(0)
    _give_back_connection()
    try:
        default_storage.save(file.path, content if isinstance(content, File) else File(content))
    except BaseException:
        if _clear(file.path):
            file.delete()
        raise


@transaction.atomic
def delete_file(*, owner: User, file_id: str, now: datetime) -> None:
    """Hides the file and, once that is committed, removes its content. Raises ApiError 404. Batches that were made of
    it go on."""
    file = find_file(owner=owner, file_id=file_id)
    theirs = StoredFile.objects.for_user(owner).filter(pk=file.pk)
    if not theirs.update(status=StoredFile.Status.DELETED, expires_at=now + DELETED_KNOWN_FOR):
        raise no_such_file(file_id)
    transaction.on_commit(partial(_clear, file.path))


def find_file(*, owner: User, file_id: str) -> StoredFile:
    """Raises ApiError 404 for one that is not there or not theirs."""
    file = StoredFile.objects.for_user(owner).filter(file_id=file_id).first()
    if file is None:
        raise no_such_file(file_id)
    return file


def no_such_file(file_id: str, *, field: str = "id") -> ApiError:
    return ApiError(404, f"There is no file {file_id[:100]!r} of yours.", details={"field": field})


def list_files(
    *, owner: User, after: str | None, limit: int, newest_first: bool, purpose: str | None
) -> tuple[list[StoredFile], bool]:
    """A page that begins behind the file `after`, and whether there is more. Raises ApiError 404 for `after`; one that
    was deleted in the last hour still has its place."""
    files = StoredFile.objects.for_user(owner).order_by("-id" if newest_first else "id")
    if purpose is not None:
        files = files.filter(purpose=purpose)
    if after is not None:
        place = StoredFile.objects.filter(owner=owner, file_id=after).values_list("pk", flat=True).first()
        if place is None:
            raise no_such_file(after, field="after")
        files = files.filter(pk__lt=place) if newest_first else files.filter(pk__gt=place)
    page = list(files[: limit + 1])
    return page[:limit], len(page) > limit


def sweep_files(*, now: datetime) -> int:
    """Hides what has expired and was never finished, and clears what was deleted. Answers how many files it cleared."""
    due = StoredFile.objects.filter(expires_at__lte=now)
    gone = StoredFile.Status.DELETED
    due.exclude(status=gone).update(status=gone, expires_at=now + DELETED_KNOWN_FOR)
    cleared = [file.pk for file in due.filter(status=gone)[:MOST_A_ROUND] if _clear(file.path)]
    StoredFile.objects.filter(pk__in=cleared, status=gone).delete()
    return len(cleared)


def _clear(path: str) -> bool:
    """Removes content, if it is there; says whether that worked. If not, the sweeper comes again."""
    _give_back_connection()
    try:
        default_storage.delete(path)
    except Exception as error:  # storages raise what their libraries do
        logger.warning("file_not_removed", path=path, reason=type(error).__name__)
        return False
    return True


def _give_back_connection() -> None:
    """To the pool, for others: the storage may take many seconds."""
    if not connection.in_atomic_block:
        connection.close()
