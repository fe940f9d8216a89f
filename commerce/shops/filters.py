"""What the list of shops may be asked."""

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.api.listing import ListFilters


class ShopFilters(ListFilters):
    search_fields = {"name": "name", "slug": "slug", "is_active": "is_active", "owner_id": "owner_id"}
    order_fields = {
        "id": "id",
        "name": "name",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "orders_count": "orders_count",
    }

    class Meta:
        model = Shop
        fields: list[str] = []


class StaffFilters(ListFilters):
    search_fields = {"name": "user__name", "email": "user__email"}
    order_fields = {"name": "user__name", "email": "user__email", "created_at": "created_at"}

    class Meta:
        model = ShopStaff
        fields: list[str] = []


class InvitationFilters(ListFilters):
    search_fields = {"email": "email"}
    order_fields = {name: name for name in ("id", "email", "created_at", "expires_at")}

    class Meta:
        model = StaffInvitation
        fields: list[str] = []
