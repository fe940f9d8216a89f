"""Factories of products."""

import secrets
from typing import Any

from django.utils import timezone

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product, ProductType
from commerce.catalog.variations import set_variations
from commerce.shops.models import Shop
from shared.accounts.models import User


def make_product(shop: Shop, slug: str = "velmo-lamp", **fields: Any) -> Product:
    product_type, _ = ProductType.objects.get_or_create(slug="home", language="en", defaults={"name": "Home"})
    defaults = {"name": "Velmo lamp", "price": 1250, "type": product_type}
    return Product.objects.create(shop=shop, slug=slug, **defaults | fields)


def make_variable_product(shop: Shop, slug: str = "fjell-shirt", **quantities: int) -> Product:
    """Create a shirt with a stock per size; each size costs one euro more than the one before."""
    shirt = make_product(shop, slug, name="Fjell shirt", product_type=Product.Kind.VARIABLE)
    items = [
        {"title": title, "price": 2000 + place * 100, "quantity": quantity}
        for place, (title, quantity) in enumerate(quantities.items())
    ]
    set_variations(product=shirt, items=items, now=timezone.now())
    return shirt


def make_picture(owner: User) -> Attachment:
    """Create the row of a picture without its file."""
    return Attachment.objects.create(
        owner=owner,
        key=secrets.token_hex(16),
        name="lamp.jpg",
        content_type="image/jpeg",
        size=1,
        width=800,
        height=600,
    )
