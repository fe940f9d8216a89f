"""Allowed filters, search fields, orders and relations of the lists of products, types, categories and tags."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import EMPTY_VALUES
from django.db.models import F, Prefetch, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.db.models.lookups import GreaterThan
from django.http import QueryDict
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field

from commerce.attributes.models import AttributeValue
from commerce.catalog.models import Category, Product, ProductType, ProductValue, Tag
from commerce.catalog.relations import RELATION_SIZES, load_related_products
from commerce.catalog.search.services import SearchResult, limit_search, search, search_result_of
from commerce.catalog.variation_serializers import MAX_LISTED_VALUES
from shared.api.errors import ValidationFailed
from shared.api.lists.filters import BooleanFormField, IntegerFilter, IntegerFormField, LanguageFilter, ListFilterSet
from shared.api.lists.relations import LoadedRelation
from shared.api.lists.search import MAX_SEARCH_LENGTH, MoneyColumn
from shared.api.money import MAX_PRICE, InvalidMoney, to_minor, to_number
from shared.api.query_params import DEFAULT_LANGUAGE, parse_integer

MAX_CHOSEN_VALUES = 50
MAX_RATING = 5

PRODUCT_SEARCH_FIELDS = (
    "id", "name", "slug", "description", "sku", "status", "product_type", "type_id", "shop_id", "quantity",
)  # fmt: skip
PRODUCT_ORDER_FIELDS = (
    "id", "name", "created_at", "updated_at", "price", "sale_price", "min_price", "max_price", "quantity",
    "sold_quantity", "ratings",
)  # fmt: skip
TAXONOMY_ORDER_FIELDS = {name: name for name in ("id", "name", "created_at", "updated_at")}


@extend_schema_field({"type": "string", "maxLength": MAX_SEARCH_LENGTH, "example": "coffee mug"})
class TextFilter(filters.CharFilter):
    """Parameter that `ProductSearchFilters` reads itself."""

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return qs


def is_text_search(search: str) -> bool:
    """Return whether a `search` is plain text, without a field as in `name:lamp`."""
    return bool(search.strip()) and ":" not in search


class IdListField(forms.Field):
    """Ids that are separated by commas."""

    def to_python(self, value: Any) -> list[int]:
        texts = [] if value in EMPTY_VALUES else str(value)[: MAX_CHOSEN_VALUES * 21].split(",")
        numbers = [parse_integer(text.strip()) for text in texts]
        if None in numbers or len(numbers) > MAX_CHOSEN_VALUES:
            raise forms.ValidationError(f"Send up to {MAX_CHOSEN_VALUES} ids, separated by commas, as in 3,7.")
        return [number for number in numbers if number is not None]


class PriceField(forms.Field):
    """Amount in major units of the platform's currency; the value is in minor units."""

    def to_python(self, value: Any) -> int | None:
        if value in EMPTY_VALUES:
            return None
        try:
            minor = to_minor(Decimal(str(value)[:32]), settings.CURRENCY)
        except (InvalidOperation, InvalidMoney):
            minor = -1
        if not 0 <= minor <= MAX_PRICE:
            raise forms.ValidationError(f"Send an amount of {settings.CURRENCY} of 0 or more, as in 12.50.")
        return minor


class RatingField(IntegerFormField):
    def to_python(self, value: Any) -> int | None:
        number = super().to_python(value)
        if number is not None and not 0 <= number <= MAX_RATING:
            raise forms.ValidationError(f"Send a whole number from 0 to {MAX_RATING}.")
        return number


class ParentField(IntegerFormField):
    """Id of a category, or `null` for the categories at the top, whose value is 0."""

    def to_python(self, value: Any) -> int | None:
        if value == "null":
            return 0
        number = super().to_python(value)
        if number is not None and number < 1:
            raise forms.ValidationError("Send the id of a category, or null.")
        return number


@extend_schema_field({"type": "string", "maxLength": 1000, "example": "3,7"})
class AttributeValuesFilter(filters.CharFilter):
    """Filter `attribute_value_id=3,7`: products with one of the values of each attribute that is named."""

    field_class = IdListField

    def filter(self, qs: "QuerySet[Any]", value: Sequence[int]) -> Any:
        for value_ids in group_by_attribute(value).values() if value else ():
            qs = qs.filter(pk__in=ProductValue.objects.filter(value__in=value_ids).values("product"))
        return qs


@extend_schema_field({"type": "number", "minimum": 0, "maximum": to_number(MAX_PRICE, "EUR"), "example": 12.5})
class PriceFilter(filters.CharFilter):
    """Filter by a product's lowest price. Products that are priced in another currency do not match."""

    field_class = PriceField

    def filter(self, qs: "QuerySet[Any]", value: int | None) -> Any:
        return qs if value in EMPTY_VALUES else super().filter(qs.filter(currency=settings.CURRENCY), value)


@extend_schema_field({"type": "integer", "minimum": 0, "maximum": MAX_RATING, "example": 4})
class RatingFilter(filters.CharFilter):
    field_class = RatingField


@extend_schema_field({"type": "boolean", "example": True})
class InStockFilter(filters.CharFilter):
    field_class = BooleanFormField

    def filter(self, qs: "QuerySet[Any]", value: bool | None) -> Any:
        # Most products are in stock. An index on the quantity, which SQLite would choose, takes it eight times as long.
        in_stock = Q(GreaterThan(F("quantity") + 0, 0))
        return qs if value in EMPTY_VALUES else qs.filter(in_stock if value else ~in_stock)


@extend_schema_field({"type": "string", "pattern": "^(null|[0-9]{1,19})$", "example": "null"})
class ParentFilter(filters.CharFilter):
    field_class = ParentField

    def filter(self, qs: "QuerySet[Any]", value: int | None) -> Any:
        return qs if value in EMPTY_VALUES else qs.filter(parent=value or None)


def attributes_of_values(text: str) -> Mapping[int, list[int]]:
    """Return the valid ids in a value of `attribute_value_id`, by attribute; an unknown value is of attribute 0."""
    return group_by_attribute(IdListField().to_python(text))


def group_by_attribute(value_ids: Sequence[int]) -> dict[int, list[int]]:
    """Return the ids of attribute values by their attribute, which is 0 for an unknown value."""
    known = dict(AttributeValue.objects.filter(pk__in=value_ids).values_list("pk", "attribute_id")) if value_ids else {}
    grouped: dict[int, list[int]] = {}
    for value_id in value_ids:
        grouped.setdefault(known.get(value_id, 0), []).append(value_id)
    return grouped


def _prefetch_listed_values(user: Any) -> "Prefetch[Any]":
    position = Window(RowNumber(), partition_by="attribute", order_by="pk")
    first = AttributeValue.objects.annotate(position=position).filter(position__lte=MAX_LISTED_VALUES)
    return Prefetch("attribute_values__attribute__values", first)


class ProductFilters(ListFilterSet):
    text_parameter = "search"
    search_fields = {
        **{name: name for name in PRODUCT_SEARCH_FIELDS},
        **{name: MoneyColumn(name) for name in ("price", "sale_price", "min_price", "max_price")},
        "type.slug": "type__slug",
        "shop.slug": "shop__slug",
        "categories.slug": "categories__slug",
        "tags.slug": "tags__slug",
    }
    order_fields = {name: name for name in PRODUCT_ORDER_FIELDS}
    relations = {
        "type": "type",
        "shop": "shop__logo",
        "categories": "categories",
        "tags": "tags",
        "variations": "attribute_values",
        "variations.attribute": "attribute_values__attribute",
        "variations.attribute.values": _prefetch_listed_values,
        "variation_options": "variations",
        "related_products": LoadedRelation(load_related_products),
    }
    relation_sizes = RELATION_SIZES
    shop_id = IntegerFilter(
        help_text="Id of a shop. Its owner and staff get its products in any status, others the published ones."
    )
    type_id = IntegerFilter(help_text="Id of a product type.")
    category_id = IntegerFilter(field_name="categories", help_text="Id of a category.")
    tag_id = IntegerFilter(field_name="tags", help_text="Id of a tag.")
    attribute_value_id = AttributeValuesFilter(
        help_text="Ids of attribute values, separated by commas. Products have one of the values of each attribute."
    )
    price_from = PriceFilter(
        field_name="min_price", lookup_expr="gte", help_text="Least price, in the platform's currency."
    )
    price_to = PriceFilter(
        field_name="min_price", lookup_expr="lt", help_text="Price, in the platform's currency, that is too much."
    )
    rating_from = RatingFilter(field_name="ratings", lookup_expr="gte", help_text="Least average rating.")
    in_stock = InStockFilter(help_text="`1` for products in stock, `0` for those that are sold out.")
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
        return self._search(text, queryset).restrict(super().filter_queryset(queryset))

    def ids_of_text(self) -> Sequence[int] | None:
        """Return the ids of the products that the text finds, or None without a text or with other filters."""
        text = self._text()
        return self._search(text, self.queryset).product_ids if text and self._is_text_alone() else None

    def _is_text_alone(self) -> bool:
        others = (self.base_filters.keys() | {"search"}) - {self.text_parameter, "language"}
        return not any(self.data.get(name) for name in others)

    def _search(self, text: str, products: QuerySet[Any]) -> SearchResult:
        """Return the result of the request's search, which its facets use too."""
        language = self.form.cleaned_data["language"] or DEFAULT_LANGUAGE
        key = (text, language)
        if getattr(self.request, "search_key", None) != key:
            with limit_search(self.text_parameter):
                result = search(text=text, language=language, products=products)
            is_ranking = self.data.get("orderBy") not in self.order_fields
            self.request.search_result = replace(result, is_ranking=is_ranking, is_whole=self._is_text_alone())
            self.request.search_key = key
        return search_result_of(self.request)

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


@extend_schema_field({"type": "string", "maxLength": 255, "example": "home"})
class SlugFilter(filters.CharFilter):
    """Filter by a slug."""


class BestSellingFilters(ProductFilters):
    type_slug = SlugFilter(field_name="type__slug", max_length=255, help_text="Slug of a product type.")


class CategoryFilters(ListFilterSet):
    search_fields = {"name": "name", "slug": "slug", "type_id": "type_id", "type.slug": "type__slug"}
    order_fields = TAXONOMY_ORDER_FIELDS
    relations = {"type": "type", "parent": "parent"}
    type_id = IntegerFilter(help_text="Id of a product type.")
    parent = ParentFilter(help_text="Id of the category above, or `null` for the categories at the top.")
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


class TagFilters(ListFilterSet):
    search_fields = {"name": "name", "slug": "slug"}
    order_fields = TAXONOMY_ORDER_FIELDS
    language = LanguageFilter()

    class Meta:
        model = Tag
        fields: list[str] = []
