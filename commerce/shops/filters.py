"""Allowed filters, search fields and orders of the lists of shops, staff and invitations."""

from typing import ClassVar

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from commerce.shops.relations import load_categories, load_staffs
from shared.accounts.models import User
from shared.api.lists.filters import BooleanFilter, IntegerFilter, ListFilterSet
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


class NewShopFilters(ShopFilters):
    is_active = BooleanFilter(default=False, help_text="`1` for active shops. Without it, the inactive ones.")


class UserFilters(ListFilterSet):
    search_fields = {name: name for name in ("name", "email", "is_active")}
    order_fields = {name: name for name in ("id", "name", "email", "created_at")}
    is_active = BooleanFilter(help_text="`1` for enabled accounts, `0` for disabled ones.")

    class Meta:
        model = User
        fields: list[str] = []


class StaffFilters(ListFilterSet):
    search_fields = {"name": "user__name", "email": "user__email", "is_active": "user__is_active"}
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
