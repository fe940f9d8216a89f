"""Prices of orders. A request names products and quantities; the server computes everything that costs money."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from commerce.catalog.models import Product, Variation
from shared.api.errors import ValidationFailed
from shared.api.money import MAX_ORDER_TOTAL

NOT_FOR_SALE = "This product is not for sale."
VARIATION_REQUIRED = "This product is sold in variations: send the id of one of them."
UNKNOWN_VARIATION = "This product has no variation with this id."


@dataclass(frozen=True, kw_only=True)
class RequestedLine:
    """A quantity of a product or, of a variable product, of one variation, as a customer orders it."""

    product_id: int
    quantity: int
    variation_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class PricedLine:
    """A requested line with its current price, in minor units of the product's currency."""

    product: Product
    variation: Variation | None
    quantity: int
    unit_price: int

    @property
    def subtotal(self) -> int:
        return self.unit_price * self.quantity


def price_lines(lines: Sequence[RequestedLine]) -> list[PricedLine]:
    """Return the lines with their prices, in the same order.

    Raises ValidationFailed, by line, for products that are not for sale and unknown variations, and for several
    currencies or a sum above the maximum.
    """
    products = Product.objects.public().in_bulk([line.product_id for line in lines])
    variation_ids = [line.variation_id for line in lines if line.variation_id is not None]
    variations = Variation.objects.live().in_bulk(variation_ids) if variation_ids else {}
    priced: list[PricedLine] = []
    errors: dict[str, list[str]] = {}
    for position, line in enumerate(lines):
        product = products.get(line.product_id)
        variation = variations.get(line.variation_id or 0)
        if product is None:
            errors[f"products.{position}.product_id"] = [NOT_FOR_SALE]
        elif error := _variation_error(product, variation, line):
            errors[f"products.{position}.variation_option_id"] = [error]
        else:
            price = (variation or product).selling_price
            priced.append(PricedLine(product=product, variation=variation, quantity=line.quantity, unit_price=price))
    if errors:
        raise ValidationFailed(errors)
    _require_one_currency_and_valid_sum(priced)
    return priced


def sales_tax(lines: Sequence[PricedLine]) -> int:
    """Return the tax on the taxable lines in minor units, rounded half up. `TAX_RATE` is in hundredths of a percent."""
    taxable = sum(line.subtotal for line in lines if line.product.is_taxable)
    rate: int = settings.TAX_RATE
    return (taxable * rate + 5_000) // 10_000


def _variation_error(product: Product, variation: Variation | None, line: RequestedLine) -> str | None:
    if product.product_type == Product.Kind.VARIABLE and line.variation_id is None:
        return VARIATION_REQUIRED
    if line.variation_id is not None and (variation is None or variation.product_id != product.pk):
        return UNKNOWN_VARIATION
    return None


def _require_one_currency_and_valid_sum(lines: Sequence[PricedLine]) -> None:
    currencies = sorted({line.product.currency for line in lines})
    if len(currencies) > 1:
        message = f"An order has one currency, these products are in {', '.join(currencies)}: place several orders."
        raise ValidationFailed({"products": [message]})
    if sum(line.subtotal for line in lines) > MAX_ORDER_TOTAL:
        raise ValidationFailed({"products": ["The total of this order is too large: place several orders."]})
