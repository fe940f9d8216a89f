"""Variations as a CSV file with one line for each variation."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from commerce.catalog.models import Variation
from commerce.catalog.serializers import LANGUAGE_PATTERN
from commerce.catalog.transfer.cells import amount_cell, read_lines, sent_fields
from commerce.catalog.variation_serializers import VariationWriteSerializer
from shared.api import csv_files
from shared.api.errors import ValidationFailed
from shared.api.fields import IdField
from shared.api.money import to_major
from shared.querysets import pages_by_pk

COLUMNS = [
    "id", "product_id", "product", "language", "title", "options", "currency", "price", "sale_price", "quantity", "sku",
    "image",
]  # fmt: skip
# They are written in one transaction: 19,000 variations of 1,000 products took 10 s of processor time.
MAX_VARIATIONS = 5_000  # of a file
MAX_PRODUCTS = 500  # whose variations a file has
_NEEDED = ("id", "product_id", "product", "language", "title", "currency", "price", "quantity", "options")


@dataclass(frozen=True)
class CsvVariation:
    """A line of a file. `values` has the fields that the line names, as services take them."""

    line: int
    values: dict[str, Any]


class VariationLineSerializer(VariationWriteSerializer):
    """The cells of a line. The product is named by id, or by slug and language."""

    id = IdField()
    product_id = IdField()
    product = serializers.CharField(max_length=255)
    language = serializers.RegexField(LANGUAGE_PATTERN, max_length=16)
    currency = serializers.RegexField(r"^[A-Z]{3}\Z")
    image = IdField(allow_null=True, source="image_id")  # type: ignore[assignment]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Leave it to the import which lines make a variation."""
        return attrs


def write_variations(variations: "QuerySet[Variation]") -> Iterator[bytes]:
    """Yield a file of the variations."""
    rows = variations.select_related("product").defer("product__description")
    return csv_files.write_csv(COLUMNS, (_cells(variation) for page in pages_by_pk(rows) for variation in page))


def read_variations(content: bytes) -> list[CsvVariation]:
    """Return the variations of a file. Raises ValidationFailed whose keys name the line, as in `csv.3`."""
    serializer, variations, products = VariationLineSerializer(partial=True), list[CsvVariation](), set[Any]()
    one_of = ("product_id", "product")
    for line, values in read_lines(content, columns=COLUMNS, one_of=one_of, serializer=serializer, to_body=_body):
        variations.append(CsvVariation(line, values))
        products.add(values.get("product_id") or (values.get("product"), values.get("language")))
        if len(variations) > MAX_VARIATIONS:
            raise ValidationFailed({"csv": [f"The file has more than {MAX_VARIATIONS} variations."]})
        if len(products) > MAX_PRODUCTS:
            raise ValidationFailed({"csv": [f"The file has variations of more than {MAX_PRODUCTS} products."]})
    return variations


def _body(cells: Mapping[str, str]) -> dict[str, Any]:
    sent = sent_fields(cells, needed=_NEEDED, lists=(), amounts=("price", "sale_price"))
    if "options" in sent:
        sent["options"] = _parse_options(sent["options"])
    return sent


def _parse_options(cell: str) -> Any:
    """Return the JSON array of a cell; any other text as it is, which is then invalid."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _cells(variation: Variation) -> list[str]:
    product = variation.product
    return [
        str(variation.pk), str(product.pk), product.slug, product.language, variation.title,
        json.dumps(variation.current_options, ensure_ascii=False), product.currency,
        amount_cell(to_major(variation.price, product.currency)),
        "" if variation.sale_price is None else amount_cell(to_major(variation.sale_price, product.currency)),
        str(variation.quantity), variation.sku, str(variation.image_id or ""),
    ]  # fmt: skip
