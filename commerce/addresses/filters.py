"""Allowed search fields and orders of the list of addresses."""

from commerce.addresses.models import Address
from shared.api.lists.filters import ListFilterSet


class AddressFilters(ListFilterSet):
    search_fields = {name: name for name in ("title", "type", "default")}
    order_fields = {name: name for name in ("id", "title", "type", "created_at", "updated_at")}

    class Meta:
        model = Address
        fields: list[str] = []
