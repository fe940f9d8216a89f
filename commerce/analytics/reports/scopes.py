"""The scope of a report: the shops whose sales a user may read."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q

from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

PLATFORM_SHOP_ID = 0  # in rollups and ledger entries that belong to no shop


@dataclass(frozen=True, kw_only=True)
class ReportScope:
    """The shops of a report, or None for the whole platform, and its currency."""

    shop_ids: tuple[int, ...] | None
    currency: str

    @property
    def is_platform(self) -> bool:
        return self.shop_ids is None

    @property
    def rollup_filter(self) -> Q:
        """Return the filter of the period rollups."""
        return Q(shop_id=PLATFORM_SHOP_ID) if self.shop_ids is None else Q(shop_id__in=self.shop_ids)

    @property
    def ledger_filter(self) -> Q:
        """Return the filter of the ledger entries; the platform has everyone's revenue and refunds."""
        return Q() if self.shop_ids is None else Q(shop_id__in=self.shop_ids)


def scope_for_user(user: User, *, shop_id: int | None = None, currency: str | None = None) -> ReportScope:
    """Return the platform's scope for a super admin, else the shops that the user owns or works in.

    `shop_id` limits it to one of these shops. Raise ApiError 403 for a customer, 404 for a shop of another owner.
    """
    if user.role == Role.CUSTOMER:
        raise ApiError(403, "Analytics are for shop owners, their staff and super admins.")
    shops = Shop.objects.managed_by(user)
    currency = currency or str(settings.CURRENCY)
    if shop_id is not None:
        if not shops.filter(pk=shop_id).exists():
            raise ApiError(404, "You have no shop with this id.")
        return ReportScope(shop_ids=(shop_id,), currency=currency)
    if user.role == Role.SUPER_ADMIN:
        return ReportScope(shop_ids=None, currency=currency)
    return ReportScope(shop_ids=tuple(shops.order_by("pk").values_list("pk", flat=True)), currency=currency)
