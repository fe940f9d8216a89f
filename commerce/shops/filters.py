"""Allowed filters, search fields and orders of the lists of shops, staff and invitations."""

from typing import ClassVar

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from commerce.shops.relations import load_categories, load_staffs
from shared.api.lists.filters import IntegerFilter, ListFilterSet
from shared.api.lists.relations import LoadedRelation


class ShopFilters(ListFilterSet):
    search_fields = {name: name for name in ("name", "slug", "is_active", "owner_id")}
    order_fields = {name: name for name in ("id", "name", "created_at", "updated_at", "orders_count")}
    relations: ClassVar = {
        "owner": "owner",
        "staffs": LoadedRelation(load_staffs),
        "categories": LoadedRelation(load_categories),
    }

    class Meta:
        model = Shop
        fields: list[str] = []


class StaffFilters(ListFilterSet):
    search_fields = {"name": "user__name", "email": "user__email"}
    order_fields = {"name": "user__name", "email": "user__email", "created_at": "created_at"}

    class Meta:
        model = ShopStaff
        fields: list[str] = []


class StaffOfShopsFilters(StaffFilters):
    shop_id = IntegerFilter(help_text="Id of a shop of yours. Without it, the staff of all of them.")


class StaffInvitationFilters(ListFilterSet):
    search_fields = {"email": "email"}
    order_fields = {name: name for name in ("id", "email", "created_at", "expires_at")}

    class Meta:
        model = StaffInvitation
        fields: list[str] = []
