"""How many descriptions a shop may ask for in a day (`DESCRIPTIONS_A_DAY`, in UTC). One row counts them, and one UPDATE
with its own condition takes from what is left, so that no number of requests at once gets one more."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import F

from commerce.catalog.models import Product
from commerce.descriptions.models import Allowance
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Whose allowance it is: a shop's, or that of a user who has none."""

    shop_id: int | None = None
    user_id: int | None = None

    def columns(self, now: datetime) -> dict[str, Any]:
        """Those of its row for the day."""
        return {"day": _day(now), "shop_id": self.shop_id, "user_id": self.user_id}


@dataclass(frozen=True, kw_only=True)
class AllowanceState:
    """`limit` and `left` are None where there is no limit."""

    limit: int | None
    used: int
    left: int | None
    resets_at: datetime


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What was taken, to be given back."""

    allowance_id: int
    count: int


class AllowanceSpent(ApiError):
    """Less is left for today than was asked for."""

    def __init__(self, state: AllowanceState, now: datetime) -> None:
        self.state = state
        seconds = max(1, int((state.resets_at - now).total_seconds()))
        super().__init__(
            429,
            f"Of the {state.limit} descriptions that this shop may ask for today, {state.left} are left. "
            "There are new ones at midnight UTC.",
            code="allowance_spent",
            headers={"Retry-After": str(seconds)},
        )


def holder_of(*, user: User, product: Product | None) -> Holder:
    """The product's shop; without a product, the first shop that this user owns or works in; else the user."""
    if product:
        return Holder(shop_id=product.shop_id)
    shop_id = Shop.objects.for_user(user).order_by("pk").values_list("pk", flat=True).first()
    return Holder(shop_id=shop_id) if shop_id else Holder(user_id=user.pk)


def take(*, holder: Holder, now: datetime, count: int = 1) -> Taken:
    """Takes as many as that or, raising AllowanceSpent, none."""
    row, _ = Allowance.objects.get_or_create(**holder.columns(now))
    rows = Allowance.objects.filter(pk=row.pk)
    if settings.DESCRIPTIONS_A_DAY:
        rows = rows.filter(used__lte=settings.DESCRIPTIONS_A_DAY - count)
    if not rows.update(used=F("used") + count):
        raise AllowanceSpent(read(holder=holder, now=now), now)
    return Taken(allowance_id=row.pk, count=count)


def give_back(*, taken: Taken) -> None:
    """What came to nothing does not count, on the day when it was asked for."""
    rows = Allowance.objects.filter(pk=taken.allowance_id, used__gte=taken.count)
    rows.update(used=F("used") - taken.count)


def read(*, holder: Holder, now: datetime) -> AllowanceState:
    """What is used and left."""
    rows = Allowance.objects.filter(**holder.columns(now))
    used = rows.values_list("used", flat=True).first() or 0
    limit = settings.DESCRIPTIONS_A_DAY or None
    left = None if limit is None else max(0, limit - used)
    resets_at = datetime.combine(_day(now) + timedelta(days=1), datetime.min.time(), UTC)
    return AllowanceState(limit=limit, used=used, left=left, resets_at=resets_at)


def _day(now: datetime) -> date:
    return now.astimezone(UTC).date()
