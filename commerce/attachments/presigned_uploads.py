"""Uploads that clients send straight to S3: a presigned form, and the step that makes an attachment of the file.

The file is invisible until it has passed the same checks as any other upload. Its folder is scheduled for deletion from
the start. It stays scheduled after the attachment exists, because the form may still send a file, and so that no second
attachment is made of it.
"""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import IO, Any

from django.conf import settings
from django.core import signing
from django.core.files import File
from django.core.files.storage import default_storage

from commerce.attachments import services, storage
from commerce.attachments.models import Attachment, ScheduledDeletion
from commerce.attachments.quota import require_free_storage
from commerce.attachments.uploads import preparation
from shared.accounts.models import User
from shared.api.errors import ApiError, ValidationFailed

FORM_LIFETIME = timedelta(minutes=15)
FINALIZE_TIMEOUT = timedelta(hours=1)
_SALT = "commerce.attachments.direct"
_OBJECT_NAME = "file"


def presign_upload(*, owner: User, name: str, now: datetime) -> dict[str, Any]:
    """Return a form for one file: `url`, `fields`, `expires_at` and `upload_id`, which is signed.

    Raise ValidationFailed where the storage is not S3, and ApiError 413.
    """
    if settings.STORAGE != "s3":
        raise ValidationFailed(
            {"name": ["This server stores files itself: send them to POST /api/attachments as a form."]}
        )
    require_free_storage(owner=owner, added_bytes=0, added_files=1)
    key = secrets.token_hex(16)
    folder = _incoming_folder(key)
    ScheduledDeletion.objects.create(folder=folder, due_at=now + FINALIZE_TIMEOUT + FORM_LIFETIME)
    s3: Any = default_storage
    form: dict[str, Any] = s3.presigned_post(
        f"{folder}/{_OBJECT_NAME}",
        max_bytes=settings.MAX_FILE_BYTES,
        expires_seconds=int(FORM_LIFETIME.total_seconds()),
    )
    upload_id = signing.dumps([owner.pk, key, name], salt=_SALT, compress=True)
    return form | {"upload_id": upload_id, "expires_at": now + FORM_LIFETIME}


def finalize_upload(
    *, owner: User, upload_id: str, now: datetime, on_created: Callable[[list[Attachment]], None]
) -> Attachment:
    """Create an attachment of the uploaded file, once. `on_created` is called in its transaction.

    Raises ApiError 404 where this user has no file under this id, and the errors of `services.upload_attachments`.
    After such an error the file can be finalized again until its hour has passed.
    """
    key, name = _read_upload_id(owner, upload_id)

    def claim(attachments: list[Attachment]) -> None:
        _claim(_incoming_folder(key), now)
        on_created(attachments)

    with preparation.temporary_file() as file:
        _download(key, name, file)
        (attachment,) = services.upload_attachments(
            owner=owner,
            incoming_files=[File(file, name)],
            now=now,
            on_created=claim,
        )
    services.try_delete_folder(_incoming_folder(key))
    return attachment


def _claim(folder: str, now: datetime) -> None:
    """Claim the upload for one of several concurrent requests. Raise ApiError 404 in the others."""
    if not ScheduledDeletion.objects.filter(folder=folder, finalized_at=None).update(finalized_at=now):
        raise _upload_not_found()


def _download(key: str, name: str, file: IO[bytes]) -> None:
    path = f"{_incoming_folder(key)}/{_OBJECT_NAME}"
    try:
        if default_storage.size(path) > settings.MAX_FILE_BYTES:
            raise preparation.file_too_large(name)
        storage.copy_to(path, file)
    except FileNotFoundError:
        raise _upload_not_found() from None


def _incoming_folder(key: str) -> str:
    return f"{storage.INCOMING_FOLDER}/{key}"


def _read_upload_id(owner: User, upload_id: str) -> tuple[str, str]:
    """Return the key and the file name of an upload. Raise ApiError 404 for an id that is not this user's."""
    try:
        owner_id, key, name = signing.loads(upload_id, salt=_SALT, max_age=FINALIZE_TIMEOUT)
    except signing.BadSignature:
        raise _upload_not_found() from None
    if owner_id != owner.pk:
        raise _upload_not_found()
    return key, name


def _upload_not_found() -> ApiError:
    return ApiError(
        404, "You have no uploaded file with this upload_id. Send the file with the form before you finalize it."
    )
