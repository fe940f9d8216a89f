"""What the list of shops may be asked."""

from commerce.shops.models import Shop
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
