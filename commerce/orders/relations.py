"""Related records of orders that are no path of model fields."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Prefetch, prefetch_related_objects

from commerce.catalog.models import Variation, VariationValue
from commerce.orders.models import Order
from shared.accounts.models import User


def load_variation_options(orders: Sequence[Any], user: User | None) -> None:
    """Set `variation_options` on the lines of each order: the ordered variation, which is a part of the order."""
    lines: list[Any] = [line for order in orders for part in _parts(order) for line in part.lines.all()]
    values = Prefetch("value_links", VariationValue.objects.select_related("value__attribute"))
    variations = Variation.objects.select_related("product", "image").prefetch_related(values)
    prefetch_related_objects(lines, Prefetch("variation", variations))
    for line in lines:
        line.variation_options = [line.variation] if line.variation else []


def _parts(order: Order) -> Sequence[Order]:
    return [order, *order.children.all()]
