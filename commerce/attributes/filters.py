"""Allowed filters, search fields, orders and relations of the list of attributes."""

from commerce.attributes.models import Attribute
from shared.api.lists.filters import IntegerFilter, LanguageFilter, ListFilterSet


class AttributeFilters(ListFilterSet):
    search_fields = {"name": "name", "slug": "slug", "shop_id": "shop_id", "shop.slug": "shop__slug"}
    order_fields = {name: name for name in ("id", "name", "shop_id", "created_at", "updated_at")}
    relations = {"shop": "shop__logo", "values": "values"}
    shop_id = IntegerFilter(help_text="Id of a shop.")
    language = LanguageFilter()

    class Meta:
        model = Attribute
        fields: list[str] = []
