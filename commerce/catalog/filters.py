"""What the lists of the catalog may be asked."""

from commerce.catalog.models import Category, Product, ProductType
from shared.api.listing import LanguageFilter, ListFilters, WholeNumberFilter


class ProductFilters(ListFilters):
    search_fields = {
        "name": "name",
        "slug": "slug",
        "description": "description",
        "sku": "sku",
        "status": "status",
        "product_type": "product_type",
        "type_id": "type_id",
        "shop_id": "shop_id",
        "type.slug": "type__slug",
        "shop.slug": "shop__slug",
        "categories.slug": "categories__slug",
        "quantity": "quantity",
    }
    order_fields = {
        "id": "id",
        "name": "name",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "price": "price",
        "sale_price": "sale_price",
        "min_price": "min_price",
        "max_price": "max_price",
        "quantity": "quantity",
        "sold_quantity": "sold_quantity",
        "ratings": "ratings",
    }
    relations = {
        "type": "type",
        "shop": "shop__logo",
        "categories": "categories",
        "variations": "variations",
    }
    shop_id = WholeNumberFilter(help_text="To the people of this shop: its products in any status.")
    type_id = WholeNumberFilter()
    category_id = WholeNumberFilter(field_name="categories")
    language = LanguageFilter()

    class Meta:
        model = Product
        fields: list[str] = []


class CategoryFilters(ListFilters):
    search_fields = {"name": "name", "slug": "slug", "type_id": "type_id", "type.slug": "type__slug"}
    order_fields = {"id": "id", "name": "name", "created_at": "created_at", "updated_at": "updated_at"}
    relations = {"type": "type"}
    type_id = WholeNumberFilter()
    language = LanguageFilter()

    class Meta:
        model = Category
        fields: list[str] = []


class TypeFilters(ListFilters):
    search_fields = {"name": "name", "slug": "slug"}
    order_fields = {"id": "id", "name": "name", "created_at": "created_at", "updated_at": "updated_at"}
    language = LanguageFilter()

    class Meta:
        model = ProductType
        fields: list[str] = []
