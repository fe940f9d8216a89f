"""Allowed filters, search fields, orders and relations of the lists of products, types and categories."""

from commerce.catalog.models import Category, Product, ProductType
from commerce.catalog.relations import load_related_products
from shared.api.lists.filters import IntegerFilter, LanguageFilter, ListFilterSet
from shared.api.lists.relations import LoadedRelation
from shared.api.lists.search import MoneyColumn

PRODUCT_SEARCH_FIELDS = (
    "id", "name", "slug", "description", "sku", "status", "product_type", "type_id", "shop_id", "quantity",
)  # fmt: skip
PRODUCT_ORDER_FIELDS = (
    "id", "name", "created_at", "updated_at", "price", "sale_price", "min_price", "max_price", "quantity",
    "sold_quantity", "ratings",
)  # fmt: skip
TAXONOMY_ORDER_FIELDS = {name: name for name in ("id", "name", "created_at", "updated_at")}


class ProductFilters(ListFilterSet):
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
