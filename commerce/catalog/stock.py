"""Stock movements: orders take stock and, when they are cancelled, failed or refunded, return it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, OuterRef, Subquery

from commerce.catalog.models import Product, Variation
from shared.api.errors import ValidationFailed

LOWEST_OF_VARIATIONS = Subquery(
    Variation.objects.live().filter(product=OuterRef("pk")).order_by("quantity").values("quantity")[:1]
)


@dataclass(frozen=True, kw_only=True)
class StockLine:
    """A quantity of a product or, of a variable product, of one variation."""

    product_id: int
    quantity: int
    variation_id: int | None = None


class OutOfStock(ValidationFailed):
    """Fewer pieces are in stock than line `position` asks for."""

    def __init__(self, position: int) -> None:
        super().__init__({f"products.{position}": ["This product is not in stock in this quantity."]})


@transaction.atomic
def take_stock(*, lines: Sequence[StockLine]) -> None:
    """Take all lines from stock or none. Raises OutOfStock.

    Rows are locked in one order everywhere, so that concurrent orders of the same products cannot deadlock.
    """
    quantities = _quantities_by_key(lines)
    for key in sorted(quantities):
        if not _take(key, quantities[key]):
            raise OutOfStock(next(position for position, line in enumerate(lines) if _key(line) == key))


@transaction.atomic
def return_stock(*, lines: Sequence[StockLine]) -> None:
    """Return to stock what `take_stock` took."""
    quantities = _quantities_by_key(lines)
    for key in sorted(quantities):
        _return(key, quantities[key])


def _key(line: StockLine) -> tuple[int, int]:
    return line.product_id, line.variation_id or 0


def _quantities_by_key(lines: Sequence[StockLine]) -> Counter[tuple[int, int]]:
    quantities: Counter[tuple[int, int]] = Counter()
    for line in lines:
        if line.quantity < 1:
            raise ValueError("The quantity of a stock line must be at least 1.")
        quantities[_key(line)] += line.quantity
    return quantities


def _take(key: tuple[int, int], quantity: int) -> bool:
    """Take from stock; return False if there is not enough or the product or variation is deleted."""
    product_id, variation_id = key
    kind = Product.Kind.VARIABLE if variation_id else Product.Kind.SIMPLE
    products = Product.objects.live().filter(pk=product_id, product_type=kind, quantity__gte=quantity)
    if not variation_id:
        return bool(products.update(**_quantity_changes(-quantity)))
    if not list(products.select_for_update(no_key=True).values_list("pk")):
        return False
    variations = Variation.objects.live().filter(pk=variation_id, product_id=product_id, quantity__gte=quantity)
    is_taken = bool(variations.update(**_quantity_changes(-quantity)))
    products.update(**_quantity_changes(-quantity), lowest_variation_quantity=LOWEST_OF_VARIATIONS)
    return is_taken


def _return(key: tuple[int, int], quantity: int) -> None:
    """Return to stock, also of a deleted product.

    The quantity of a variable product is the sum of its live variations. It does not grow by a variation deleted
    since, nor by pieces sold while the product was a simple one.
    """
    product_id, variation_id = key
    products = Product.objects.filter(pk=product_id)
    product = products.select_for_update(no_key=True).get()
    changes = _quantity_changes(quantity)
    if variation_id:
        variations = product.variations.filter(pk=variation_id)
        is_sellable = variations.live().exists()
        variations.update(**changes)
    else:
        is_sellable = product.product_type == Product.Kind.SIMPLE
    if not is_sellable:
        del changes["quantity"]
    if variation_id:
        changes["lowest_variation_quantity"] = LOWEST_OF_VARIATIONS
    products.update(**changes)


def _quantity_changes(difference: int) -> dict[str, Any]:
    return {"quantity": F("quantity") + difference, "sold_quantity": F("sold_quantity") - difference}
