"""Services of uploads.

An upload that gets no part for UPLOAD_LIFETIME, or is not completed within MAX_UPLOAD_LIFETIME, is deleted with its
parts.
"""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from tempfile import TemporaryFile
from typing import IO, Any

from django.conf import settings
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models import F, QuerySet, Sum

from inference.access.responses import ObjectNotFound
from inference.engine import InvalidRequest
from inference.files.models import StoredFile, Upload
from inference.files.services import (
    create_row,
    discard,
    find_file,
    finish_file,
    has_storage,
    remove_content,
    require_fewer_files,
    require_file_size,
    storage_error,
    store,
)
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError
from shared.transactions import close_connection

UPLOAD_LIFETIME = timedelta(hours=1)
MAX_UPLOAD_LIFETIME = timedelta(days=1)
MAX_PART_BYTES = 64 * 1024 * 1024
MAX_PARTS = 1000
MAX_TIMES_SENT = 2  # a part is sent again if its response is lost
COPY_BYTES = 1024 * 1024
Status = Upload.Status


@transaction.atomic
def create_upload(*, owner: User, name: str, size: int, retention: timedelta | None, now: datetime) -> Upload:
    """Create an upload. Raise ApiError 413 for a file that is too large or exceeds the owner's storage."""
    require_file_size(size, field="bytes")
    lock_active_user(owner)
    require_fewer_files(owner)
    upload = Upload.objects.create(
        upload_id=f"upload_{secrets.token_hex(12)}",
        owner=owner,
        name=name,
        size=size,
        retention_seconds=round(retention.total_seconds()) if retention else None,
        created_at=now,
        expires_at=now + UPLOAD_LIFETIME,
    )
    if not has_storage(owner):
        raise storage_error("bytes")
    return upload


def add_part(*, owner: User, upload_id: str, content: "UploadedFile[Any]", now: datetime) -> StoredFile:
    """Store a part. Parts may come in any order and at once.

    Raise ApiError 404, 409 for an upload that has ended, and 413 for far more bytes than it announced.
    """
    size = content.size or 0
    if size > MAX_PART_BYTES:
        raise ApiError(413, f"`data` must have at most {MAX_PART_BYTES} bytes.", details={"field": "data"})
    with transaction.atomic():
        upload = _lock_pending(owner, upload_id, now)
        parts = upload.parts.exclude(status=StoredFile.Status.DELETED)
        received = parts.aggregate(size=Sum("size"))["size"] or 0
        if received + size > MAX_TIMES_SENT * upload.size:
            message = f"The parts have {received + size} bytes in all, and the upload was created for {upload.size}."
            raise ApiError(413, f"{message} Create another one.", details={"field": "data"})
        if parts.count() >= MAX_PARTS:
            raise ApiError(413, f"An upload has at most {MAX_PARTS} parts.", details={"field": "data"})
        part = create_row(
            owner=owner,
            purpose=StoredFile.Purpose.BATCH,
            name="",
            size=size,
            now=now,
            upload=upload,
            file_id=f"part_{secrets.token_hex(12)}",
        )
    store(part, content)
    try:
        _finish_part(part, owner, upload_id, now)
    except BaseException:
        discard(part)
        raise
    return part


@transaction.atomic
def _finish_part(part: StoredFile, owner: User, upload_id: str, now: datetime) -> None:
    """Take the part for whole, unless the upload has ended meanwhile. It postpones the expiry of all of the upload."""
    upload = _lock_pending(owner, upload_id, now)
    expires_at = max(upload.expires_at, min(now + UPLOAD_LIFETIME, upload.created_at + MAX_UPLOAD_LIFETIME))
    if not StoredFile.objects.filter(pk=part.pk, status=StoredFile.Status.STORING).update(expires_at=expires_at):
        raise ApiError(503, "Storing the part took too long. Try again.", headers={"Retry-After": "1"})
    _arrived_parts(upload).update(expires_at=expires_at)
    upload.expires_at = expires_at
    upload.save(update_fields=["expires_at"])


def find_upload(
    *, owner: User, upload_id: str, now: datetime
) -> tuple[Upload, StoredFile | None, Sequence[StoredFile]]:
    """Return an upload, the file of a completed one unless it was deleted, and the parts that a pending one has.

    The parts are whole, and in the order in which they arrived. Raise ApiError 404.
    """
    upload = Upload.objects.filter(owner=owner, upload_id=upload_id).first()
    if upload is None:
        raise ObjectNotFound("upload", upload_id, field="id")
    file = StoredFile.objects.for_user(owner).filter(file_id=upload.file_id).first()
    is_pending = upload_status(upload, now) == Status.PENDING
    return upload, file, list(_arrived_parts(upload).order_by("id")) if is_pending else []


def upload_status(upload: Upload, now: datetime) -> str:
    """Return the status of an upload, or "expired"."""
    return "expired" if upload.status == Status.PENDING and upload.expires_at <= now else upload.status


def _arrived_parts(upload: Upload) -> QuerySet[StoredFile]:
    """Return the parts that are whole: they expire with the upload, and those that are being stored on their own."""
    return upload.parts.filter(status=StoredFile.Status.STORING, expires_at=F("upload__expires_at"))


def complete_upload(
    *, owner: User, upload_id: str, part_ids: Sequence[str], md5: str, now: datetime
) -> tuple[Upload, StoredFile]:
    """Make the file of these parts, in their order, and return both. A completed upload has its file already.

    md5: of the file, in hexadecimal digits; "" is not compared.

    Raise InvalidRequest for parts that are not those of the upload or have other bytes in all than it announced, and
    ApiError 404 and 409. Then the upload is as before.
    """
    with transaction.atomic():
        upload, completed = _lock_with_file(owner, upload_id, now)
        if completed:
            return upload, completed
        parts = _find_parts(upload, part_ids)
    try:
        file = _make_file(owner, upload, parts, md5, now)
    except FileNotFoundError:  # another request has completed or cancelled the upload, and removed its parts
        with transaction.atomic():
            upload, completed = _lock_with_file(owner, upload_id, now)
        if completed is None:
            raise
        return upload, completed
    try:
        return _finish(file, owner, upload_id, now)
    finally:
        if file.status != StoredFile.Status.STORED:
            discard(file)


def _make_file(owner: User, upload: Upload, parts: Sequence[StoredFile], md5: str, now: datetime) -> StoredFile:
    """Store the parts as one file that is not visible yet. With the upload it counts as a part does, so not twice."""
    close_connection()
    with TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR) as content:
        _join(parts, content, md5)
        file = create_row(
            owner=owner,
            purpose=StoredFile.Purpose.BATCH,
            name=upload.name,
            size=upload.size,
            now=now,
            upload=upload,
        )
        store(file, content)
    return file


@transaction.atomic
def cancel_upload(*, owner: User, upload_id: str, now: datetime) -> Upload:
    """End an upload, and delete its parts. Raise ApiError 404 and 409."""
    upload = _lock_pending(owner, upload_id, now)
    upload.status = Status.CANCELLED
    upload.save(update_fields=["status"])
    remove_parts(upload, now)
    return upload


@transaction.atomic
def _finish(file: StoredFile, owner: User, upload_id: str, now: datetime) -> tuple[Upload, StoredFile]:
    """Make the file visible, unless another request has completed the upload meanwhile: return that one's file."""
    upload, completed = _lock_with_file(owner, upload_id, now)
    if completed:
        return upload, completed
    StoredFile.objects.filter(pk=file.pk).update(upload=None)
    seconds = upload.retention_seconds
    retention = settings.BATCH_RETENTION if seconds is None else timedelta(seconds=seconds)
    finish_file(file=file, expires_at=now + retention)
    upload.status, upload.file_id = Status.COMPLETED, file.file_id
    upload.save(update_fields=["status", "file_id"])
    remove_parts(upload, now)
    return upload, file


def remove_parts(upload: Upload, now: datetime) -> None:
    """Remove the parts' content on commit, since an ended upload counts no longer. The sweeper deletes the rows.

    Requests that are storing parts or joining them remove what they have stored.
    """
    for part in upload.parts.filter(expires_at=upload.expires_at):
        transaction.on_commit(partial(remove_content, part.path))
    upload.parts.update(expires_at=now)


def _lock_with_file(owner: User, upload_id: str, now: datetime) -> tuple[Upload, StoredFile | None]:
    """Lock an upload that is pending or completed, and return it with its file, which only a completed one has."""
    upload = _lock(owner, upload_id)
    if upload.status == Status.COMPLETED:
        return upload, find_file(owner=owner, file_id=upload.file_id)
    _require_pending(upload, now)
    return upload, None


def _lock_pending(owner: User, upload_id: str, now: datetime) -> Upload:
    upload = _lock(owner, upload_id)
    _require_pending(upload, now)
    return upload


def _lock(owner: User, upload_id: str) -> Upload:
    upload = Upload.objects.select_for_update().filter(owner=owner, upload_id=upload_id).first()
    if upload is None:
        raise ObjectNotFound("upload", upload_id, field="id")
    return upload


def _require_pending(upload: Upload, now: datetime) -> None:
    status = upload_status(upload, now)
    if status != Status.PENDING:
        raise ApiError(409, f"The upload is {status}: create another one.", details={"field": "id"})


def _find_parts(upload: Upload, part_ids: Sequence[str]) -> list[StoredFile]:
    if len(set(part_ids)) < len(part_ids):
        raise InvalidRequest("`part_ids` must have each part once.", field="part_ids")
    by_id = {part.file_id: part for part in _arrived_parts(upload).filter(file_id__in=part_ids)}
    if unknown := next((part_id for part_id in part_ids if part_id not in by_id), None):
        raise InvalidRequest(f"`part_ids` has {unknown}, which is no stored part of this upload.", field="part_ids")
    if (size := sum(part.size for part in by_id.values())) != upload.size:
        message = f"The parts have {size} bytes, and the upload was created for {upload.size}. Send what is missing."
        raise InvalidRequest(message, field="part_ids")
    return [by_id[part_id] for part_id in part_ids]


def _join(parts: Sequence[StoredFile], content: IO[bytes], md5: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    for part in parts:
        with default_storage.open(part.path) as stored:
            while data := stored.read(COPY_BYTES):
                digest.update(data)
                content.write(data)
    if md5 and digest.hexdigest() != md5.lower():
        raise InvalidRequest(f"`md5` is not that of the parts, which is {digest.hexdigest()}.", field="md5")
