"""Products to test with."""

from typing import Any

from commerce.catalog.models import Product, ProductType
from commerce.shops.models import Shop


def make_product(shop: Shop, slug: str = "velmo-lamp", **fields: Any) -> Product:
    product_type, _ = ProductType.objects.get_or_create(slug="home", language="en", defaults={"name": "Home"})
    defaults = {"name": "Velmo lamp", "price": 1250, "type": product_type}
    return Product.objects.create(shop=shop, slug=slug, **defaults | fields)
