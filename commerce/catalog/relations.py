"""Related records of products that are no path of model fields."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from commerce.catalog.models import Product
from shared.accounts.models import User

MAX_RELATED_PRODUCTS = 20


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
