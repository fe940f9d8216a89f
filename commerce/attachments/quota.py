"""Quota of the files that one user stores."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Sum

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError


@dataclass(frozen=True, kw_only=True)
class StorageQuota:
    """The bytes and files that a user may store, and how much of both is left. None: without a limit."""

    max_bytes: int | None
    max_files: int | None
    remaining_bytes: int | None
    remaining_files: int | None


def storage_quota(owner: User) -> StorageQuota:
    """Return the quota of the owner's files.

    The admin may set it for one user. Otherwise a user whose e-mail address is not confirmed has a smaller one, a super
    admin none.
    """
    max_bytes, max_files = owner.attachment_byte_limit, owner.attachment_count_limit
    if owner.role != Role.SUPER_ADMIN:
        default_bytes, default_files = _default_quota(owner)
        max_bytes = default_bytes if max_bytes is None else max_bytes
        max_files = default_files if max_files is None else max_files
    if max_bytes is None and max_files is None:
        return StorageQuota(max_bytes=None, max_files=None, remaining_bytes=None, remaining_files=None)
    stored = Attachment.objects.filter(owner=owner).aggregate(size=Sum("size", default=0), count=Count("pk"))
    return StorageQuota(
        max_bytes=max_bytes,
        max_files=max_files,
        remaining_bytes=None if max_bytes is None else max(0, max_bytes - stored["size"]),
        remaining_files=None if max_files is None else max(0, max_files - stored["count"]),
    )


def require_free_storage(*, owner: User, added_bytes: int, added_files: int) -> None:
    """Raise ApiError 413, which says what is left, if the owner's files would exceed the quota.

    The caller who must not race with others holds the lock of the user's row.
    """
    quota = storage_quota(owner)
    left = {"bytes": (quota.remaining_bytes, added_bytes), "files": (quota.remaining_files, added_files)}
    if all(remaining is None or added <= remaining for remaining, added in left.values()):
        return
    remaining_text = " and ".join(
        f"{remaining} {unit}" for unit, (remaining, _) in left.items() if remaining is not None
    )
    advice = "" if owner.email_verified_at else " or confirm your e-mail address"
    raise ApiError(
        413,
        f"Your quota has {remaining_text} left; this upload has {added_bytes} bytes and {added_files} files. "
        f"Delete attachments{advice} first.",
    )


def _default_quota(owner: User) -> tuple[int, int]:
    if owner.email_verified_at:
        return settings.MAX_ATTACHMENT_BYTES_PER_USER, settings.MAX_ATTACHMENTS_PER_USER
    return settings.MAX_UNVERIFIED_ATTACHMENT_BYTES, settings.MAX_UNVERIFIED_ATTACHMENTS
