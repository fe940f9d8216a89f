"""Whose figures somebody is told."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q

from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

PLATFORM = 0  # the shop_id of what belongs to no shop


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Whose figures: these shops', or for None the platform's; in one currency."""

    shop_ids: tuple[int, ...] | None
    currency: str

    @property
    def is_platform(self) -> bool:
        return self.shop_ids is None

    @property
    def figures(self) -> Q:
        """Whose rows of the figures."""
        return Q(shop_id=PLATFORM) if self.shop_ids is None else Q(shop_id__in=self.shop_ids)

    @property
    def entries(self) -> Q:
        """Whose entries: the platform has everybody's revenue and refunds."""
        return Q() if self.shop_ids is None else Q(shop_id__in=self.shop_ids)


def scope_of(user: User, *, shop_id: int | None = None, currency: str | None = None) -> Scope:
    """The platform's figures for a super admin, else those of the shops that the user owns or works in; of one of them
    where it is named. Raises ApiError 403 for a customer, 404 for a shop that is not the user's."""
    if user.role == Role.CUSTOMER:
        raise ApiError(403, "Figures are for the people of the shops.")
    shops = Shop.objects.managed_by(user)
    wanted = currency or str(settings.CURRENCY)
    if shop_id is not None:
        if not shops.filter(pk=shop_id).exists():
            raise ApiError(404, "You have no shop with this id.")
        return Scope(shop_ids=(shop_id,), currency=wanted)
    is_platform = user.role == Role.SUPER_ADMIN
    own = None if is_platform else tuple(shops.order_by("pk").values_list("pk", flat=True))
    return Scope(shop_ids=own, currency=wanted)
