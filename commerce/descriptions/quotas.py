"""Daily quota of descriptions per shop (`DESCRIPTIONS_PER_DAY`, by the UTC day).

One row counts a day's requests. A single conditional UPDATE charges it, so that concurrent requests cannot exceed the
limit.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from commerce.catalog.models import Product
from commerce.descriptions.models import QuotaUsage
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError


@dataclass(frozen=True, kw_only=True)
class QuotaOwner:
    """The shop, or the user without a shop, that a quota belongs to."""

    shop_id: int | None = None
    user_id: int | None = None

    def row_key(self, now: datetime) -> dict[str, Any]:
        """Return the values that identify this owner's row for the day."""
        return {"day": _day(now), "shop_id": self.shop_id, "user_id": self.user_id}


@dataclass(frozen=True, kw_only=True)
class QuotaStatus:
    """Usage of a quota. `limit` and `left` are None where there is no limit."""

    limit: int | None
    used: int
    left: int | None
    resets_at: datetime


class QuotaExceeded(ApiError):
    """A request for more descriptions than the day's quota has left."""

    def __init__(self, status: QuotaStatus, now: datetime) -> None:
        self.status = status
        seconds = max(1, int((status.resets_at - now).total_seconds()))
        super().__init__(
            429,
            f"This shop has {status.left} of its {status.limit} descriptions left for today. "
            "The quota resets at midnight UTC.",
            code="allowance_spent",
            headers={"Retry-After": str(seconds)},
        )


def find_owner(*, user: User, product: Product | None) -> QuotaOwner:
    """Return the product's shop, or else the user's first shop, or else the user."""
    if product:
        return QuotaOwner(shop_id=product.shop_id)
    shop_id = Shop.objects.for_user(user).order_by("pk").values_list("pk", flat=True).first()
    return QuotaOwner(shop_id=shop_id) if shop_id else QuotaOwner(user_id=user.pk)


def charge(*, owner: QuotaOwner, now: datetime, count: int = 1) -> int:
    """Charge this many descriptions to the day's quota, and return the id of its row.

    Raise QuotaExceeded and charge none if fewer are left.
    """
    row, _ = QuotaUsage.objects.get_or_create(**owner.row_key(now))
    rows = QuotaUsage.objects.filter(pk=row.pk)
    if settings.DESCRIPTIONS_PER_DAY:
        rows = rows.filter(used__lte=settings.DESCRIPTIONS_PER_DAY - count)
    if not rows.update(used=F("used") + count):
        raise QuotaExceeded(get_status(owner=owner, now=now), now)
    return row.pk


def refund(usage_id: int, count: int = 1) -> None:
    """Return this many descriptions to the row of the day that they were charged on."""
    QuotaUsage.objects.filter(pk=usage_id, used__gte=count).update(used=F("used") - count)


def get_status(*, owner: QuotaOwner, now: datetime) -> QuotaStatus:
    """Return how much of the day's quota is used and left."""
    rows = QuotaUsage.objects.filter(**owner.row_key(now))
    used = rows.values_list("used", flat=True).first() or 0
    limit = settings.DESCRIPTIONS_PER_DAY or None
    left = None if limit is None else max(0, limit - used)
    resets_at = datetime.combine(_day(now) + timedelta(days=1), datetime.min.time(), UTC)
    return QuotaStatus(limit=limit, used=used, left=left, resets_at=resets_at)


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()
