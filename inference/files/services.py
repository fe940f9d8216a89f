"""Services of files: store, publish, find, list and delete.

No content is ever without a row, and no visible file without its content.

A row is created with the status `storing` before its content is written, and becomes visible after the last byte.
Deletion hides the row first. Whatever a crash leaves in between has an `expires_at`, at which `sweep_files` clears it.
"""

import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

import structlog
from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models import QuerySet, Sum

from inference.access.responses import ObjectNotFound
from inference.files.models import StoredFile, Upload
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError
from shared.transactions import close_connection

MAX_STORING_TIME = timedelta(hours=1)
DELETED_RETENTION = timedelta(hours=1)
MAX_PER_SWEEP = 1000
MAX_FILES_PER_USER = 10_000

logger = structlog.get_logger(__name__)


def upload_file(
    *,
    owner: User,
    content: "UploadedFile[Any]",
    retention: timedelta | None = None,
    now: datetime,
    on_stored: Callable[[StoredFile], None] | None = None,
) -> StoredFile:
    """Store an uploaded input file.

    retention: overrides the setting.
    on_stored: called in the transaction that makes the file visible.

    Raises ApiError 413 for a file that is too large or exceeds the owner's storage or MAX_FILES_PER_USER, and 503 if
    storing takes too long.
    """
    size = require_file_size(content.size, field="file")
    with transaction.atomic():
        lock_active_user(owner)  # concurrent uploads of one user are counted one after the other
        require_fewer_files(owner)
        purpose = StoredFile.Purpose.BATCH
        file = create_row(owner=owner, purpose=purpose, name=content.name or "", size=size, now=now)
    if not has_storage(owner):  # its row is counted already, so that concurrent uploads share no free space
        file.delete()
        raise storage_error("file")
    store(file, content)
    with transaction.atomic():
        finish_file(file=file, expires_at=now + (retention or settings.BATCH_RETENTION))
        if on_stored:
            on_stored(file)
    return file


def write_file(*, owner: User, name: str, lines: Iterable[bytes], now: datetime) -> StoredFile:
    """Store an output file of a batch, through a temporary file. It is invisible until `finish_file`.

    `finish_file` must follow within MAX_STORING_TIME.
    """
    with TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR) as content:
        for line in lines:
            content.write(line)
        size = content.tell()
        file = create_row(owner=owner, purpose=StoredFile.Purpose.BATCH_OUTPUT, name=name, size=size, now=now)
        store(file, content)
    return file


def finish_file(*, file: StoredFile, expires_at: datetime) -> None:
    """Make the file visible. Raises ApiError 503 if the sweeper has taken it for interrupted."""
    storing = StoredFile.objects.filter(pk=file.pk, status=StoredFile.Status.STORING)
    if not storing.update(status=StoredFile.Status.STORED, expires_at=expires_at):
        raise ApiError(503, "Storing the file took too long. Try again.", headers={"Retry-After": "1"})
    file.status, file.expires_at = StoredFile.Status.STORED, expires_at


@transaction.atomic
def delete_file(*, owner: User, file_id: str, now: datetime) -> None:
    """Hide the file, and remove its content on commit. Batches created from it go on. Raises ApiError 404."""
    file = find_file(owner=owner, file_id=file_id)
    visible = StoredFile.objects.for_user(owner).filter(pk=file.pk)
    if not visible.update(status=StoredFile.Status.DELETED, expires_at=now + DELETED_RETENTION):
        raise ObjectNotFound("file", file_id, field="id")
    transaction.on_commit(partial(remove_content, file.path))


def find_file(*, owner: User, file_id: str) -> StoredFile:
    """Return one of the owner's files. Raises ApiError 404, for another user's too."""
    file = StoredFile.objects.for_user(owner).filter(file_id=file_id).first()
    if file is None:
        raise ObjectNotFound("file", file_id, field="id")
    return file


def list_files(
    *, owner: User, after: str | None, limit: int, newest_first: bool, purpose: str | None
) -> tuple[list[StoredFile], bool]:
    """Return a page of files and whether more follow.

    Raises ApiError 404 for an unknown `after`. A file deleted within the last hour is still known.
    """
    files = StoredFile.objects.for_user(owner).order_by("-id" if newest_first else "id")
    if purpose is not None:
        files = files.filter(purpose=purpose)
    if after is not None:
        after_pk = StoredFile.objects.filter(owner=owner, file_id=after).values_list("pk", flat=True).first()
        if after_pk is None:
            raise ObjectNotFound("file", after, field="after")
        files = files.filter(pk__lt=after_pk) if newest_first else files.filter(pk__gt=after_pk)
    page = list(files[: limit + 1])
    return page[:limit], len(page) > limit


def sweep_files(*, now: datetime) -> int:
    """Hide expired files and interrupted uploads, and remove deleted ones. Return the number removed."""
    due = StoredFile.objects.filter(expires_at__lte=now)
    deleted = StoredFile.Status.DELETED
    due.exclude(status=deleted).update(status=deleted, expires_at=now + DELETED_RETENTION)
    removed = [file.pk for file in due.filter(status=deleted)[:MAX_PER_SWEEP] if remove_content(file.path)]
    StoredFile.objects.filter(pk__in=removed, status=deleted).delete()
    Upload.objects.filter(expires_at__lte=now, parts=None).delete()
    return len(removed)


def require_file_size(size: int | None, *, field: str) -> int:
    """Return the size. Raise ApiError 413 for a file that is too large."""
    if size is None or size > settings.MAX_FILE_BYTES:
        message = f"`{field}` must have at most {settings.MAX_FILE_BYTES} bytes. Split the file."
        raise ApiError(413, message, details={"field": field})
    return size


def require_fewer_files(owner: User) -> None:
    """Raise ApiError 413 if the owner has as many files and pending uploads as are allowed."""
    files = StoredFile.objects.filter(owner=owner, upload=None).exclude(status=StoredFile.Status.DELETED)
    if files.count() + _pending_uploads(owner).count() >= MAX_FILES_PER_USER:
        message = f"You have {MAX_FILES_PER_USER} files, the maximum: 0 are left. Delete some and try again."
        raise ApiError(413, message, details={"field": "file"})


def has_storage(owner: User) -> bool:
    """Return whether the owner's files, and those that their uploads announce, are within their storage."""
    files = StoredFile.objects.filter(owner=owner, upload=None).exclude(status=StoredFile.Status.DELETED)
    taken = [rows.aggregate(size=Sum("size"))["size"] or 0 for rows in (files, _pending_uploads(owner))]
    return bool(sum(taken) <= settings.MAX_FILE_BYTES_PER_USER)


def storage_error(field: str) -> ApiError:
    message = f"Your files may take up to {settings.MAX_FILE_BYTES_PER_USER} bytes together. Delete some and try again."
    return ApiError(413, message, details={"field": field})


def _pending_uploads(owner: User) -> "QuerySet[Upload]":
    return Upload.objects.filter(owner=owner, status=Upload.Status.PENDING)


def create_row(
    *, owner: User, purpose: StoredFile.Purpose, name: str, size: int, now: datetime, **more: Any
) -> StoredFile:
    """Create the row of a file whose content follows."""
    values = dict(
        file_id=f"file-{secrets.token_hex(12)}",
        owner=owner,
        purpose=purpose,
        name=name,
        size=size,
        created_at=now,
        expires_at=now + MAX_STORING_TIME,
    )
    return StoredFile.objects.create(**values | more)


def store(file: StoredFile, content: "IO[bytes] | File[Any]") -> None:
    """Write the content of a row. If that fails, neither remains."""
    content.seek(0)
    close_connection()
    try:
        default_storage.save(file.path, content if isinstance(content, File) else File(content))
    except BaseException:
        discard(file)
        raise


def discard(file: StoredFile) -> None:
    """Remove a file that nobody sees. If its content cannot be removed now, the sweeper removes both."""
    if remove_content(file.path):
        file.delete()


def remove_content(path: str) -> bool:
    """Remove content if it exists. Return whether that succeeded; if not, the sweeper tries again."""
    close_connection()
    try:
        default_storage.delete(path)
    except Exception as error:  # each storage raises its library's exceptions
        logger.warning("file_removal_failed", path=path, reason=type(error).__name__)
        return False
    return True
