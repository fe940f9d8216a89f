"""Allowed filters, search fields and orders of the lists of shops, staff and invitations."""

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.api.lists.filters import ListFilterSet


class ShopFilters(ListFilterSet):
    search_fields = {name: name for name in ("name", "slug", "is_active", "owner_id")}
    order_fields = {name: name for name in ("id", "name", "created_at", "updated_at", "orders_count")}

    class Meta:
        model = Shop
        fields: list[str] = []


class StaffFilters(ListFilterSet):
    search_fields = {"name": "user__name", "email": "user__email"}
    order_fields = {"name": "user__name", "email": "user__email", "created_at": "created_at"}

    class Meta:
        model = ShopStaff
        fields: list[str] = []


class StaffInvitationFilters(ListFilterSet):
    search_fields = {"email": "email"}
    order_fields = {name: name for name in ("id", "email", "created_at", "expires_at")}

    class Meta:
        model = StaffInvitation
        fields: list[str] = []
