"""What an order costs. Prices are the server's own: a request names products and quantities, nothing else counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from commerce.catalog.models import Product, Variation
from shared.api.errors import ValidationFailed
from shared.api.money import LARGEST_ORDER

NOT_FOR_SALE = "This product is not for sale."
CHOOSE_VARIATION = "This product is sold in variations: name one of them."
NO_SUCH_VARIATION = "This product has no such variation."


@dataclass(frozen=True, kw_only=True)
class WantedLine:
    """So many of a product; of one of its variations, where it has them."""

    product_id: int
    quantity: int
    variation_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class PricedLine:
    """A wanted line with today's price, in minor units of the product's currency."""

    product: Product
    variation: Variation | None
    quantity: int
    unit_price: int

    @property
    def subtotal(self) -> int:
        return self.unit_price * self.quantity


def price_lines(wanted: Sequence[WantedLine]) -> list[PricedLine]:
    """The lines in the order they came. Raises ValidationFailed, by line: not for sale, no such variation, or several
    currencies, or a sum that no order can have."""
    products = Product.objects.public().in_bulk([line.product_id for line in wanted])
    named = [line.variation_id for line in wanted if line.variation_id is not None]
    variations = Variation.objects.live().in_bulk(named) if named else {}
    priced: list[PricedLine] = []
    errors: dict[str, list[str]] = {}
    for position, line in enumerate(wanted):
        product = products.get(line.product_id)
        variation = variations.get(line.variation_id or 0)
        if product is None:
            errors[f"products.{position}.product_id"] = [NOT_FOR_SALE]
        elif problem := _variation_problem(product, variation, line):
            errors[f"products.{position}.variation_option_id"] = [problem]
        else:
            price = (variation or product).selling_price
            priced.append(PricedLine(product=product, variation=variation, quantity=line.quantity, unit_price=price))
    if errors:
        raise ValidationFailed(errors)
    _require_one_payable_sum(priced)
    return priced


def sales_tax(lines: Sequence[PricedLine]) -> int:
    """`TAX_RATE`, in hundredths of a percent, of what is taxable; half a minor unit is rounded up."""
    taxable = sum(line.subtotal for line in lines if line.product.is_taxable)
    rate: int = settings.TAX_RATE
    return (taxable * rate + 5_000) // 10_000


def _variation_problem(product: Product, variation: Variation | None, line: WantedLine) -> str | None:
    if product.product_type == Product.Kind.VARIABLE and line.variation_id is None:
        return CHOOSE_VARIATION
    if line.variation_id is not None and (variation is None or variation.product_id != product.pk):
        return NO_SUCH_VARIATION
    return None


def _require_one_payable_sum(lines: Sequence[PricedLine]) -> None:
    currencies = sorted({line.product.currency for line in lines})
    if len(currencies) > 1:
        text = f"An order is in one currency, these products are in {', '.join(currencies)}: order them apart."
        raise ValidationFailed({"products": [text]})
    if sum(line.subtotal for line in lines) > LARGEST_ORDER:
        raise ValidationFailed({"products": ["This order is too large: split it."]})
