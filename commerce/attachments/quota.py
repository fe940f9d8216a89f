"""Quota of the files that one user stores."""

from django.conf import settings
from django.db.models import Count, Sum

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError


def require_free_storage(*, owner: User, added_bytes: int, added_files: int) -> None:
    """Raise ApiError 413, which says what is left, if the owner's files would exceed the quota.

    A user whose e-mail address is not confirmed has a smaller quota, a super admin none. The caller who must not race
    with others holds the lock of the user's row.
    """
    if owner.role == Role.SUPER_ADMIN:
        return
    if owner.email_verified_at:
        max_bytes, max_files, advice = settings.MAX_ATTACHMENT_BYTES_PER_USER, settings.MAX_ATTACHMENTS_PER_USER, ""
    else:
        max_bytes, max_files = settings.MAX_UNVERIFIED_ATTACHMENT_BYTES, settings.MAX_UNVERIFIED_ATTACHMENTS
        advice = " or confirm your e-mail address"
    stored = Attachment.objects.filter(owner=owner).aggregate(size=Sum("size", default=0), count=Count("pk"))
    left_bytes, left_files = max(0, max_bytes - stored["size"]), max(0, max_files - stored["count"])
    if added_bytes <= left_bytes and added_files <= left_files:
        return
    raise ApiError(
        413,
        f"Your quota has {left_bytes} bytes and {left_files} files left; this upload has {added_bytes} bytes and "
        f"{added_files} files. Delete attachments{advice} first.",
    )
