"""Related records of products that are no path of model fields."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum, TextField, Value
from django.db.models.functions import Cast, Coalesce, Length

from commerce.catalog.models import Product, ProductValue, Variation
from shared.accounts.models import User

MAX_RELATED_PRODUCTS = 20
BYTES_PER_VARIATION, BYTES_PER_VALUE, BYTES_PER_NAME = 2_000, 1_000, 1_000
BYTES_PER_RELATED_PRODUCT = 1_500


def _total(rows: "QuerySet[Any]", bytes_per_row: Any) -> Coalesce:
    """Return the bytes of all rows that belong to a product."""
    of_product = rows.filter(product=OuterRef("pk")).order_by().values("product")
    return Coalesce(Subquery(of_product.annotate(size=Sum(bytes_per_row)).values("size")), 0)


# A character has up to four bytes.
RELATION_SIZES = {
    "categories": _total(Product.categories.through._default_manager.all(), Value(BYTES_PER_NAME)),
    "tags": _total(Product.tags.through._default_manager.all(), Value(BYTES_PER_NAME)),
    "variations": _total(
        ProductValue.objects.all(), (Length("value__value") + Length("value__meta")) * 4 + BYTES_PER_VALUE
    ),
    "variation_options": _total(
        Variation.objects.live(),
        (Length("title") + Length(Cast("options", TextField()))) * 4 + BYTES_PER_VARIATION,
    ),
    "related_products": Value(MAX_RELATED_PRODUCTS * BYTES_PER_RELATED_PRODUCT),
}


def load_related_products(products: Sequence[Any], user: User | None) -> None:
    """Set `related_products` on each product: the newest public ones of its type and language."""
    kinds = {(product.type_id, product.language) for product in products}
    newest = Q(pk__in=())
    for type_id, language in kinds:  # a window over all products of a type would sort a million rows
        same = Product.objects.public().filter(type_id=type_id, language=language).order_by("-pk")
        newest |= Q(pk__in=same.values("pk")[: MAX_RELATED_PRODUCTS + 1])
    related = defaultdict(list)
    for product in Product.objects.filter(newest).select_related("image").order_by("-pk"):
        related[product.type_id, product.language].append(product)
    for product in products:
        others = [other for other in related[product.type_id, product.language] if other.pk != product.pk]
        product.related_products = others[:MAX_RELATED_PRODUCTS]
