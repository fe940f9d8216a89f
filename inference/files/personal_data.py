"""Personal data in files: their rows. Users download the content from /v1/files/{id}/content."""

from datetime import datetime

from inference.files.models import StoredFile, Upload
from inference.files.services import DELETED_RETENTION, delete_file
from inference.files.uploads.services import remove_parts
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule


def _erase(user: User, now: datetime) -> None:
    """Delete the content at commit and clear the names; the sweeper deletes the rows an hour later.

    Files that are being stored become deleted, so that they never become visible.
    """
    for file_id in StoredFile.objects.for_user(user).values_list("file_id", flat=True):
        delete_file(owner=user, file_id=file_id, now=now)
    for upload in Upload.objects.filter(owner=user):
        remove_parts(upload, now)
    files = StoredFile.objects.filter(owner=user)
    uploading = files.filter(status=StoredFile.Status.STORING)
    uploading.update(status=StoredFile.Status.DELETED, expires_at=now + DELETED_RETENTION)
    files.update(name="")


def _erase_uploads(user: User, now: datetime) -> None:
    """End the uploads and clear their names; the sweeper deletes the rows."""
    Upload.objects.filter(owner=user).update(name="", status=Upload.Status.CANCELLED, expires_at=now)


RULES = (PersonalDataRule(StoredFile, "owner", _erase), PersonalDataRule(Upload, "owner", _erase_uploads))
