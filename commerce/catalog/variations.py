"""The variations of a variable product, and the figures that the product has from them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, Sum
from django.db.models.functions import Coalesce

from commerce.catalog.models import Product, Variation
from shared.api.errors import ValidationFailed

COLUMNS = ("title", "options", "sku", "price", "sale_price", "quantity")


def set_variations(*, product: Product, wanted: Sequence[Mapping[str, Any]] | None, now: datetime) -> None:
    """`wanted` is the whole list: those with an id are changed, those without are new, the others are deleted; None
    leaves them. In the transaction of a caller who holds the product's lock. Raises ValidationFailed."""
    if wanted is not None:
        _write(product, _checked(product, wanted), now)
    refresh_figures(product=product)


def refresh_figures(*, product: Product) -> None:
    """Sets the product's quantity and prices to those of its variations."""
    paid = Coalesce("sale_price", "price")
    figures = product.variations.filter(deleted_at=None).aggregate(
        quantity=Coalesce(Sum("quantity"), 0), lowest=Min(paid), highest=Max(paid)
    )
    product.lowest_variation_price, product.highest_variation_price = figures["lowest"], figures["highest"]
    if product.product_type == Product.Kind.VARIABLE:
        product.quantity = figures["quantity"]
        product.price, product.sale_price = figures["lowest"] or 0, None
    product.save()
    product.refresh_from_db(fields=["min_price", "max_price"])  # which the database computes


def _checked(product: Product, wanted: Sequence[Mapping[str, Any]]) -> list[Variation]:
    known = {variation.pk: variation for variation in product.variations.filter(deleted_at=None)}
    variations = []
    for position, given in enumerate(wanted):
        identity = given.get("id")
        variation = Variation(product=product) if identity is None else known.pop(identity, None)
        if variation is None:
            raise _refused(position, "This product has no such variation, or it is named twice.")
        for name in COLUMNS:
            if name in given:
                setattr(variation, name, given[name])
        if variation.sale_price is not None and variation.sale_price > variation.price:
            raise _refused(position, "The sale price may not be above the price.")
        variations.append(variation)
    return variations


def _write(product: Product, variations: Sequence[Variation], now: datetime) -> None:
    kept = [variation for variation in variations if variation.pk]
    for variation in kept:
        variation.updated_at = now
    gone = product.variations.filter(deleted_at=None).exclude(pk__in=[variation.pk for variation in kept])
    gone.update(deleted_at=now)
    Variation.objects.bulk_update(kept, [*COLUMNS, "updated_at"])
    Variation.objects.bulk_create([variation for variation in variations if not variation.pk])


def _refused(position: int, message: str) -> ValidationFailed:
    return ValidationFailed({f"variations.{position}": [message]})
