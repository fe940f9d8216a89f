"""Quotas of the files that one user stores, and of those that the people of one shop store together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

_STORED: dict[str, Any] = {"bytes": Sum("size", default=0), "files": Count("pk")}


@dataclass(frozen=True, kw_only=True)
class StorageQuota:
    """The bytes and files that may be stored, and how much of both is left. None: without a limit."""

    max_bytes: int | None
    max_files: int | None
    remaining_bytes: int | None
    remaining_files: int | None


@dataclass(frozen=True, kw_only=True)
class ShopStorageQuota(StorageQuota):
    """The quota of a shop: the files of its owner and of its staff count."""

    shop_id: int
    shop_name: str


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
    stored = Attachment.objects.filter(owner=owner).aggregate(**_STORED)
    return StorageQuota(
        max_bytes=max_bytes,
        max_files=max_files,
        remaining_bytes=None if max_bytes is None else max(0, max_bytes - stored["bytes"]),
        remaining_files=None if max_files is None else max(0, max_files - stored["files"]),
    )


def shop_storage_quotas(user: User) -> list[ShopStorageQuota]:
    """Return the quota of each shop that the user owns or works in; none for a super admin, who has no quota.

    An owner's files count in each of their shops. The admin may set the quota of one shop.
    """
    shops = _shops(user)
    if not shops:
        return []
    by_owner = Attachment.objects.filter(owner=shops[0].owner_id).aggregate(**_STORED)  # they have the same owner
    staff_files = Attachment.objects.filter(owner__shop_place__shop__in=shops).order_by()
    by_staff = {
        shop: {"bytes": size, "files": count}
        for shop, size, count in staff_files.values_list("owner__shop_place__shop").annotate(**_STORED)
    }
    quotas = []
    for shop in shops:
        staff = by_staff.get(shop.pk, {"bytes": 0, "files": 0})
        max_bytes, max_files = shop.attachment_byte_limit, shop.attachment_count_limit
        max_bytes = settings.MAX_ATTACHMENT_BYTES_PER_SHOP if max_bytes is None else max_bytes
        max_files = settings.MAX_ATTACHMENTS_PER_SHOP if max_files is None else max_files
        quotas.append(
            ShopStorageQuota(
                shop_id=shop.pk,
                shop_name=shop.name,
                max_bytes=max_bytes,
                max_files=max_files,
                remaining_bytes=max(0, max_bytes - by_owner["bytes"] - staff["bytes"]),
                remaining_files=max(0, max_files - by_owner["files"] - staff["files"]),
            )
        )
    return quotas


def lock_shop_quotas(user: User) -> None:
    """Lock the quotas of the user's shops until the transaction ends, by the row of the shops' owner."""
    owners = {shop.owner_id for shop in _shops(user)}
    list(User.objects.select_for_update(no_key=True).filter(pk__in=owners))


def require_free_storage(*, owner: User, added_bytes: int, added_files: int) -> None:
    """Raise ApiError 413, which says what is left, if the owner's files would exceed a quota.

    The caller who must not race with others holds the locks of the user's row and of `lock_shop_quotas`.
    """
    advice = "" if owner.email_verified_at else " or confirm your e-mail address"
    _require(storage_quota(owner), "Your quota", f"Delete attachments{advice} first.", added_bytes, added_files)
    for quota in shop_storage_quotas(owner):
        _require(
            quota,
            f"The quota of the shop {quota.shop_name!r}",
            "Its owner and staff can delete attachments, and the platform can raise the quota.",
            added_bytes,
            added_files,
        )


def _require(quota: StorageQuota, whose: str, advice: str, added_bytes: int, added_files: int) -> None:
    left = {"bytes": (quota.remaining_bytes, added_bytes), "files": (quota.remaining_files, added_files)}
    if all(remaining is None or added <= remaining for remaining, added in left.values()):
        return
    remaining_text = " and ".join(
        f"{remaining} {unit}" for unit, (remaining, _) in left.items() if remaining is not None
    )
    raise ApiError(
        413,
        f"{whose} has {remaining_text} left; this upload has {added_bytes} bytes and {added_files} files. {advice}",
    )


def _shops(user: User) -> Sequence[Any]:
    if user.role not in (Role.STORE_OWNER, Role.STAFF):
        return []
    shop_model: Any = User.owned_shops.rel.related_model  # shops imports attachments, not the other way round
    return list(shop_model.objects.for_user(user))


def _default_quota(owner: User) -> tuple[int, int]:
    if owner.email_verified_at:
        return settings.MAX_ATTACHMENT_BYTES_PER_USER, settings.MAX_ATTACHMENTS_PER_USER
    return settings.MAX_UNVERIFIED_ATTACHMENT_BYTES, settings.MAX_UNVERIFIED_ATTACHMENTS
