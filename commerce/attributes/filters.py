"""Allowed filters, search fields, orders and relations of the list of attributes."""

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from drf_spectacular.utils import extend_schema_field

from commerce.attributes.models import Attribute
from shared.api.lists.filters import IntegerFilter, LanguageFilter, ListFilterSet
from shared.api.query_params import DEFAULT_LANGUAGE, MAX_LANGUAGE_LENGTH


@extend_schema_field({"type": "string", "maxLength": MAX_LANGUAGE_LENGTH, "example": "de"})
class AttributeLanguageFilter(LanguageFilter):
    """Filter `language=de`. Without it English attributes, and those of other languages without an English one."""

    def filter(self, qs: "QuerySet[Any]", value: str) -> Any:
        if value:
            return super().filter(qs, value)
        english = Attribute.objects.filter(slug=OuterRef("slug"), shop=OuterRef("shop"), language=DEFAULT_LANGUAGE)
        return qs.filter(Q(language=DEFAULT_LANGUAGE) | ~Exists(english))


class AttributeFilters(ListFilterSet):
    search_fields = {"name": "name", "slug": "slug", "shop_id": "shop_id", "shop.slug": "shop__slug"}
    order_fields = {name: name for name in ("id", "name", "shop_id", "created_at", "updated_at")}
    relations = {"shop": "shop__logo", "values": "values"}
    shop_id = IntegerFilter(help_text="Id of a shop.")
    language = AttributeLanguageFilter()

    class Meta:
        model = Attribute
        fields: list[str] = []
