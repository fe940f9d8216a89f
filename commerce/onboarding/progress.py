"""OwnerProgress of an owner's first steps, read from the shops, products and staff that there are."""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from commerce.catalog.models import Product
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

OWNER_ROLES = frozenset({Role.STORE_OWNER, Role.SUPER_ADMIN})
STEP_COUNT = 3


@dataclass(frozen=True)
class OwnerProgress:
    """The first shop and product of an owner, and whether someone works there or is invited to."""

    shop: Shop | None
    product: Product | None
    has_staff: bool

    @property
    def done_count(self) -> int:
        return sum((self.shop is not None, self.product is not None, self.has_staff))

    @property
    def may_sell(self) -> bool:
        """Whether what selling needs is done. Staff can wait: an owner may work alone."""
        return self.shop is not None and self.product is not None

    def require_shop(self) -> Shop:
        """Return the shop. Raise ApiError 409 where there is none."""
        if self.shop is None:
            raise ApiError(409, gettext("Open a shop first."))
        return self.shop


def read_progress(user: User, now: datetime) -> OwnerProgress:
    shops = Shop.objects.filter(owner=user)
    return OwnerProgress(
        shop=shops.order_by("pk").first(),
        product=Product.objects.live().filter(shop__in=shops).order_by("pk").first(),
        has_staff=ShopStaff.objects.filter(shop__in=shops).exists()
        or StaffInvitation.objects.open(now).filter(shop__in=shops).exists(),
    )
