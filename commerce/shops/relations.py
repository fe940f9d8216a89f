"""Related records of shops that are no path of model fields."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role


def load_staffs(shops: Sequence[Any], user: User | None) -> None:
    """Set `staffs` on each shop: its staff, or None unless the user owns the shop or is a super admin."""
    readable = [shop for shop in shops if user and (user.role == Role.SUPER_ADMIN or shop.owner_id == user.pk)]
    members = defaultdict(list)
    if readable:
        for member in ShopStaff.objects.filter(shop__in=readable).select_related("user"):
            members[member.shop_id].append(member)
    for shop in shops:
        shop.staffs = members[shop.pk] if shop in readable else None


def load_categories(shops: Sequence[Any], user: User | None) -> None:
    """Set `categories` on each shop: those of its published products, by id."""
    product_model: Any = Shop.products.rel.related_model  # catalog imports shops, not the other way round
    pairs = product_model.categories.through._default_manager.filter(
        product__shop__in=shops, product__status="publish", product__deleted_at=None
    )
    ids = defaultdict(list)
    for shop_id, category_id in pairs.order_by("category_id").values_list("product__shop_id", "category_id").distinct():
        ids[shop_id].append(category_id)
    found = product_model.categories.rel.model._default_manager.in_bulk({pk for each in ids.values() for pk in each})
    for shop in shops:
        shop.categories = [found[pk] for pk in ids[shop.pk] if pk in found]
