"""Uploads that go straight to S3: a form to send a file with, and the step that makes an attachment of it.

What a client has put there is seen by nobody until it has been through all that any upload goes through. The file waits
in a folder that is written down as left over from the start, so that one that is never finished goes. It stays written
down after the attachment is made, as the form may still send, and so that nothing is made of it again.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import IO, Any

from django.conf import settings
from django.core import signing
from django.core.files.storage import default_storage

from commerce.attachments import intake, services, storage
from commerce.attachments.intake import Offered
from commerce.attachments.models import Attachment, Leftover
from shared.accounts.models import User
from shared.api.errors import ApiError, ValidationFailed

SEND_WITHIN = timedelta(minutes=15)
FINALIZE_WITHIN = timedelta(hours=1)
_SALT = "commerce.attachments.direct"
_OBJECT = "file"


@dataclass(frozen=True, kw_only=True)
class Presigned:
    """A form for one file, good until `expires_at`. `upload_id` is signed: it names its user and where the file is."""

    upload_id: str
    url: str
    fields: dict[str, str]
    expires_at: datetime


def presign_upload(*, owner: User, name: str, now: datetime) -> Presigned:
    """Raises ValidationFailed where files do not lie in S3."""
    if settings.STORAGE != "s3":
        raise ValidationFailed(
            {"name": ["This server keeps files itself: send them to POST /api/attachments as a form."]}
        )
    key = secrets.token_hex(16)
    folder = _folder_of(key)
    Leftover.objects.create(folder=folder, due_at=now + FINALIZE_WITHIN + SEND_WITHIN)
    s3: Any = default_storage
    form = s3.presigned_post(
        f"{folder}/{_OBJECT}", largest=settings.LARGEST_FILE_BYTES, expires_s=int(SEND_WITHIN.total_seconds())
    )
    upload_id = signing.dumps([owner.pk, key, name], salt=_SALT, compress=True)
    return Presigned(upload_id=upload_id, url=form["url"], fields=form["fields"], expires_at=now + SEND_WITHIN)


def finalize_upload(*, owner: User, upload_id: str, now: datetime) -> Attachment:
    """Makes an attachment of what was sent, once. Raises ApiError 404 where nothing waits under this id for this user,
    and what `services.upload_attachments` raises; then the file still waits, until its hour has passed."""
    key, name = _waiting(owner, upload_id)
    with intake.temporary_file() as file:
        _fetch(key, name, file)
        offered = [Offered(file=file, name=name)]
        claim = partial(_claim, _folder_of(key), now)
        (attachment,) = services.upload_attachments(owner=owner, offered=offered, now=now, claim=claim)
    services.remove_files(_folder_of(key))
    return attachment


def _claim(folder: str, now: datetime) -> None:
    """For one request, of all that finalize this upload."""
    if not Leftover.objects.filter(folder=folder, finalized_at=None).update(finalized_at=now):
        raise _nothing_waits()


def _fetch(key: str, name: str, file: IO[bytes]) -> None:
    path = f"{_folder_of(key)}/{_OBJECT}"
    try:
        if default_storage.size(path) > settings.LARGEST_FILE_BYTES:
            raise intake.too_large(name)
        storage.copy_to(path, file)
    except FileNotFoundError:
        raise _nothing_waits() from None


def _folder_of(key: str) -> str:
    return f"{storage.INCOMING}/{key}"


def _waiting(owner: User, upload_id: str) -> tuple[str, str]:
    try:
        owner_id, key, name = signing.loads(upload_id, salt=_SALT, max_age=FINALIZE_WITHIN)
    except signing.BadSignature:
        raise _nothing_waits() from None
    if owner_id != owner.pk:
        raise _nothing_waits()
    return key, name


def _nothing_waits() -> ApiError:
    return ApiError(404, "No file waits under this upload_id: send it by the form, within its time, and then finalize.")
