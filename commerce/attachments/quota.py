"""Quotas of the files that one user stores, and of those that the staff of one shop store together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

SUMS: dict[str, Any] = {"bytes": Sum("size", default=0), "files": Count("pk")}


@dataclass(frozen=True, kw_only=True)
class StorageQuota:
    """The bytes and files that may be stored, and how much of both is left. None: without a limit.

    `shop` is the one whose staff share the quota, or None for a user's own.
    """

    max_bytes: int | None
    max_files: int | None
    remaining_bytes: int | None
    remaining_files: int | None
    shop: Any = None


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
        return _quota(None, None, {})
    return _quota(max_bytes, max_files, Attachment.objects.filter(owner=owner).aggregate(**SUMS))


def shop_storage_quotas(user: User) -> list[StorageQuota]:
    """Return the quota of each shop that the user owns or works in. The admin may set it for one shop.

    What staff have stored counts for good: also after they have left the shop.
    """
    if user.role not in (Role.STORE_OWNER, Role.STAFF):
        return []
    shop_model: Any = User.owned_shops.rel.related_model  # shops imports attachments, not the other way round
    shops = list(shop_model.objects.for_user(user))
    stored = Attachment.objects.filter(shop__in=shops).order_by().values("shop").annotate(**SUMS)
    sums: dict[int, Any] = {row["shop"]: row for row in stored}
    return [_shop_quota(shop, sums.get(shop.pk, {})) for shop in shops]


def _shop_quota(shop: Any, stored: Mapping[str, int]) -> StorageQuota:
    max_bytes, max_files = shop.attachment_byte_limit, shop.attachment_count_limit
    return _quota(
        settings.MAX_ATTACHMENT_BYTES_PER_SHOP if max_bytes is None else max_bytes,
        settings.MAX_ATTACHMENTS_PER_SHOP if max_files is None else max_files,
        stored,
        shop=shop,
    )


def _quota(max_bytes: int | None, max_files: int | None, stored: Mapping[str, int], shop: Any = None) -> StorageQuota:
    return StorageQuota(
        max_bytes=max_bytes,
        max_files=max_files,
        remaining_bytes=None if max_bytes is None else max(0, max_bytes - stored.get("bytes", 0)),
        remaining_files=None if max_files is None else max(0, max_files - stored.get("files", 0)),
        shop=shop,
    )


def lock_shop_of(user: User) -> int | None:
    """Return the id of the shop in whose quota the user's files count, and lock it until the transaction ends."""
    if user.role != Role.STAFF:
        return None
    shop_model: Any = User.owned_shops.rel.related_model
    shop = shop_model.objects.for_user(user).select_for_update(no_key=True).first()
    return shop.pk if shop else None


def require_free_storage(*, owner: User, added_bytes: int, added_files: int) -> None:
    """Raise ApiError 413, which says what is left, if the owner's files would exceed a quota.

    The caller who must not race with others holds the locks of the user's row and of `lock_shop_of`.
    """
    advice = "" if owner.email_verified_at else " or confirm your e-mail address"
    _require_rest_of(storage_quota(owner), f"Delete attachments{advice} first.", added_bytes, added_files)
    if owner.role == Role.STAFF:
        for quota in shop_storage_quotas(owner):
            advice = "Its owner and those who uploaded its files can delete them."
            _require_rest_of(quota, advice, added_bytes, added_files)


def _require_rest_of(quota: StorageQuota, advice: str, added_bytes: int, added_files: int) -> None:
    left = {"bytes": (quota.remaining_bytes, added_bytes), "files": (quota.remaining_files, added_files)}
    if all(remaining is None or added <= remaining for remaining, added in left.values()):
        return
    subject = f"The staff's quota of the shop {quota.shop.name!r}" if quota.shop else "Your quota"
    remaining_text = " and ".join(
        f"{remaining} {unit}" for unit, (remaining, _) in left.items() if remaining is not None
    )
    raise ApiError(
        413,
        f"{subject} has {remaining_text} left; this upload has {added_bytes} bytes and {added_files} files. {advice}",
    )


def _default_quota(owner: User) -> tuple[int, int]:
    if owner.email_verified_at:
        return settings.MAX_ATTACHMENT_BYTES_PER_USER, settings.MAX_ATTACHMENTS_PER_USER
    return settings.MAX_UNVERIFIED_ATTACHMENT_BYTES, settings.MAX_UNVERIFIED_ATTACHMENTS
