"""What the list of attributes may be asked."""

from commerce.attributes.models import Attribute
from shared.api.listing import LanguageFilter, ListFilters, WholeNumberFilter


class AttributeFilters(ListFilters):
    search_fields = {"name": "name", "slug": "slug", "shop_id": "shop_id", "shop.slug": "shop__slug"}
    order_fields = {name: name for name in ("id", "name", "shop_id", "created_at", "updated_at")}
    relations = {"shop": "shop__logo", "values": "values"}
    shop_id = WholeNumberFilter()
    language = LanguageFilter()

    class Meta:
        model = Attribute
        fields: list[str] = []
