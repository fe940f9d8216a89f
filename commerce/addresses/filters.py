"""What the list of addresses may be asked."""

from commerce.addresses.models import Address
from shared.api.listing import ListFilters


class AddressFilters(ListFilters):
    search_fields = {"title": "title", "type": "type", "default": "default"}
    order_fields = {name: name for name in ("id", "title", "type", "created_at", "updated_at")}

    class Meta:
        model = Address
        fields: list[str] = []
