"""Allowed filters, search fields, orders and relations of the lists of products, types and categories."""

from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field

from commerce.catalog.models import Category, Product, ProductType
from commerce.catalog.relations import load_related_products
from commerce.catalog.search.services import search
from shared.api.errors import ValidationFailed
from shared.api.lists.filters import IntegerFilter, LanguageFilter, ListFilterSet
from shared.api.lists.relations import LoadedRelation
from shared.api.lists.search import MAX_SEARCH_LENGTH, MoneyColumn
from shared.api.query_params import DEFAULT_LANGUAGE

PRODUCT_SEARCH_FIELDS = (
    "id", "name", "slug", "description", "sku", "status", "product_type", "type_id", "shop_id", "quantity",
)  # fmt: skip
PRODUCT_ORDER_FIELDS = (
    "id", "name", "created_at", "updated_at", "price", "sale_price", "min_price", "max_price", "quantity",
    "sold_quantity", "ratings",
)  # fmt: skip
TAXONOMY_ORDER_FIELDS = {name: name for name in ("id", "name", "created_at", "updated_at")}


@extend_schema_field({"type": "string", "maxLength": MAX_SEARCH_LENGTH, "example": "coffee mug"})
class TextFilter(filters.CharFilter):  # type: ignore[misc]
    """Parameter that `ProductSearchFilters` reads itself."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return qs


def is_text_search(search: str) -> bool:
    """Return whether a `search` is plain text, without a field as in `name:lamp`."""
    return bool(search.strip()) and ":" not in search


class ProductFilters(ListFilterSet):
    text_parameter = "search"
    search_fields = {
        **{name: name for name in PRODUCT_SEARCH_FIELDS},
        **{name: MoneyColumn(name) for name in ("price", "sale_price", "min_price", "max_price")},
        "type.slug": "type__slug",
        "shop.slug": "shop__slug",
        "categories.slug": "categories__slug",
    }
    order_fields = {name: name for name in PRODUCT_ORDER_FIELDS}
    relations = {
        "type": "type",
        "shop": "shop__logo",
        "categories": "categories",
        "variations": "variations",
        "related_products": LoadedRelation(load_related_products),
    }
    shop_id = IntegerFilter(
        help_text="Id of a shop. Its owner and staff get its products in any status, others the published ones."
    )
    type_id = IntegerFilter(help_text="Id of a product type.")
    category_id = IntegerFilter(field_name="categories", help_text="Id of a category.")
    language = LanguageFilter()

    class Meta:
        model = Product
        fields: list[str] = []

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Search the index for a `search` that names no field; everything else filters and orders as in other lists."""
        text = self._text()
        if not text:
            return super().filter_queryset(queryset)
        if len(text) > MAX_SEARCH_LENGTH:
            raise ValidationFailed({self.text_parameter: [f"Send at most {MAX_SEARCH_LENGTH} characters."]})
        if self.text_parameter == "search":
            self.data = self._without_search()
        result = search(text=text, language=self.form.cleaned_data["language"] or DEFAULT_LANGUAGE)
        self.request.search_result = result
        products = super().filter_queryset(queryset)
        return result.restrict(products) if self.data.get("orderBy") in self.order_fields else result.order(products)

    def _without_search(self) -> QueryDict:
        data: QueryDict = self.data.copy()
        data.pop("search", None)
        return data

    def _text(self) -> str:
        text = str(self.data.get("search", ""))
        return text if is_text_search(text) else ""


class ProductSearchFilters(ProductFilters):
    """Filters of `/products/search`, where the text is `q`."""

    text_parameter = "q"
    q = TextFilter(help_text="What the shopper looks for, in words; without it, all products.")

    def _text(self) -> str:
        return str(self.data.get("q", "")).strip()


class CategoryFilters(ListFilterSet):
    search_fields = {"name": "name", "slug": "slug", "type_id": "type_id", "type.slug": "type__slug"}
    order_fields = TAXONOMY_ORDER_FIELDS
    relations = {"type": "type"}
    type_id = IntegerFilter(help_text="Id of a product type.")
    language = LanguageFilter()

    class Meta:
        model = Category
        fields: list[str] = []


class TypeFilters(ListFilterSet):
    search_fields = {"name": "name", "slug": "slug"}
    order_fields = TAXONOMY_ORDER_FIELDS
    language = LanguageFilter()

    class Meta:
        model = ProductType
        fields: list[str] = []
