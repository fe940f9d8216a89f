"""What is kept of the files that a person sent. They have the content at /v1/files/{id}/content."""

from datetime import datetime

from inference.files.models import StoredFile
from inference.files.services import DELETED_KNOWN_FOR, delete_file
from shared.accounts.models import User
from shared.accounts.person_rules import Rule


def _erase(user: User, now: datetime) -> None:
    """Their content goes with the commit; the rows are swept an hour later, and have no name until then. So does what
    is being stored just now, which is never to be seen."""
    for file_id in StoredFile.objects.for_user(user).values_list("file_id", flat=True):
        delete_file(owner=user, file_id=file_id, now=now)
    theirs = StoredFile.objects.filter(owner=user)
    coming = theirs.filter(status=StoredFile.Status.STORING)
    coming.update(status=StoredFile.Status.DELETED, expires_at=now + DELETED_KNOWN_FOR)
    theirs.update(name="")


RULES = (Rule(StoredFile, "owner", _erase),)
