"""Products as a CSV file with one line for each product."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from commerce.catalog.models import Product
from commerce.catalog.serializers import (
    LANGUAGE_PATTERN,
    MAX_CATEGORIES,
    MAX_GALLERY_IMAGES,
    MAX_TAGS,
    ProductWriteSerializer,
)
from commerce.catalog.transfer.cells import amount_cell, cell_of_names, read_lines, sent_fields
from shared.api import csv_files
from shared.api.errors import ValidationFailed
from shared.api.fields import IdField
from shared.api.money import to_major
from shared.querysets import pages_by_pk

COLUMNS = [
    "id", "name", "slug", "language", "description", "type", "product_type", "status", "currency", "price",
    "sale_price", "sku", "quantity", "unit", "height", "width", "length", "is_taxable", "categories", "tags", "image",
    "gallery",
]  # fmt: skip
MAX_PRODUCTS = 5_000  # of a file: they are written in one transaction
PRODUCTS_PER_QUERY = 20  # of an export: slow readers keep as many descriptions in memory
# An empty cell of one of these says nothing; of any other column it says that the product has none.
_NEEDED = ("id", "name", "slug", "language", "type", "product_type", "status", "currency", "price", "quantity",
           "is_taxable")  # fmt: skip
_LISTS = ("categories", "tags", "gallery")


@dataclass(frozen=True)
class CsvProduct:
    """A line of a file. `values` has the fields that the line names, as services take them, and the names of others."""

    line: int
    values: dict[str, Any]


class ProductLineSerializer(ProductWriteSerializer):
    """The cells of a line. Types, categories and tags are named by slug or id."""

    type_id = variations = variation_options = None  # type: ignore[assignment]
    id = IdField()
    slug = serializers.CharField(max_length=255)
    language = serializers.RegexField(LANGUAGE_PATTERN, max_length=16)
    type = serializers.CharField(max_length=255)
    categories = serializers.ListField(child=serializers.CharField(max_length=255), max_length=MAX_CATEGORIES)
    tags = serializers.ListField(child=serializers.CharField(max_length=255), max_length=MAX_TAGS)
    image = IdField(allow_null=True, source="image_id")  # type: ignore[assignment]
    gallery = serializers.ListField(child=IdField(), max_length=MAX_GALLERY_IMAGES, source="gallery_ids")


def write_products(products: "QuerySet[Product]") -> Iterator[bytes]:
    """Yield a file of the products."""
    rows = products.select_related("type").prefetch_related("categories", "tags", "gallery")
    pages = pages_by_pk(rows, page_size=PRODUCTS_PER_QUERY)
    return csv_files.write_csv(COLUMNS, (_cells(product) for page in pages for product in page))


def read_products(content: bytes) -> list[CsvProduct]:
    """Return the products of a file. Raises ValidationFailed whose keys name the line, as in `csv.3`."""
    serializer, products = ProductLineSerializer(partial=True), list[CsvProduct]()
    one_of = ("id", "slug", "name")
    for line, values in read_lines(content, columns=COLUMNS, one_of=one_of, serializer=serializer, to_body=_body):
        products.append(CsvProduct(line, values))
        if len(products) > MAX_PRODUCTS:
            raise ValidationFailed({"csv": [f"The file has more than {MAX_PRODUCTS} products."]})
    return products


def _body(cells: Mapping[str, str]) -> dict[str, Any]:
    return sent_fields(cells, needed=_NEEDED, lists=_LISTS, amounts=("price", "sale_price"))


def _cells(product: Product) -> list[str]:
    language = product.language
    return [
        str(product.pk), product.name, product.slug, language, product.description,
        cell_of_names([product.type], language), product.product_type, product.status, product.currency,
        amount_cell(to_major(product.price, product.currency)),
        "" if product.sale_price is None else amount_cell(to_major(product.sale_price, product.currency)),
        product.sku, str(product.quantity), product.unit, product.height, product.width, product.length,
        str(product.is_taxable).lower(), cell_of_names(product.categories.all(), language),
        cell_of_names(product.tags.all(), language), str(product.image_id or ""),
        ",".join(str(image.pk) for image in product.gallery.all()),
    ]  # fmt: skip
