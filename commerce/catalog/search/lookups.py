"""Rows by many ids."""

import json
from collections.abc import Collection
from typing import Any

from django.db import connection
from django.db.models import F, Lookup
from django.db.models.sql.compiler import SQLCompiler

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product

# The SQL that follows a column of ids: they are one parameter. As a parameter each, a thousand take Django longer than
# the database.
IN_IDS = {
    "sqlite": "IN (SELECT value FROM json_each(%s))",
    "postgresql": "= ANY(%s::bigint[])",
}
_COLUMNS = ", ".join(f'"{field.column}"' for field in Product._meta.concrete_fields)
_GALLERY = f"FROM {Product.gallery.through._meta.db_table} WHERE product_id = {Product._meta.db_table}.id"
_GALLERY_IDS = {
    "sqlite": f"SELECT group_concat(attachment_id) FROM (SELECT attachment_id {_GALLERY} "  # nosec B608
    "ORDER BY attachment_id DESC)",
    "postgresql": f"SELECT string_agg(attachment_id::text, ',' ORDER BY attachment_id DESC) {_GALLERY}",
}
_PRODUCTS = f"SELECT {_COLUMNS}, (%s) AS gallery_ids FROM {Product._meta.db_table} WHERE deleted_at IS NULL AND id "  # nosec B608
PRODUCTS_BY_ID = {vendor: _PRODUCTS % _GALLERY_IDS[vendor] + IN_IDS[vendor] for vendor in IN_IDS}


def ids_parameter(ids: Collection[int], vendor: str) -> str:
    """Return the parameter of IN_IDS: a text, because psycopg takes a millisecond to write a list of a thousand."""
    return f"{{{','.join(map(str, ids))}}}" if vendor == "postgresql" else json.dumps(list(ids))


class IdIn(Lookup):
    """Condition that the primary key is one of these ids."""

    lookup_name = "id_in"
    prepare_rhs = False

    def __init__(self, ids: Collection[int]) -> None:
        super().__init__(F("pk"), list(ids))

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        column, parameters = self.process_lhs(compiler, connection)
        return f"{column} {IN_IDS[connection.vendor]}", [*parameters, ids_parameter(self.rhs, connection.vendor)]


def products_with_images(product_ids: Collection[int]) -> dict[int, Product]:
    """Return those of the products that are not deleted, by id, with the images that every response shows.

    `for_response` returns the same: for each query of a page, Django makes its SQL and a manager for each gallery,
    which takes five times as long.
    """
    parameter = ids_parameter(product_ids, connection.vendor)
    products, galleries = {}, {}
    for product in Product.objects.raw(PRODUCTS_BY_ID[connection.vendor], [parameter]):
        gallery_ids = product.gallery_ids or ""  # type: ignore[attr-defined]  # a column of the query
        products[product.pk], galleries[product.pk] = product, [int(pk) for pk in gallery_ids.split(",") if pk]
    image_ids = {product.image_id for product in products.values()} - {None}
    image_ids.update(image_id for ids in galleries.values() for image_id in ids)
    images = Attachment.objects.in_bulk(list(image_ids)) if image_ids else {}
    for product in products.values():
        product.image = images.get(product.image_id)
        gallery = [images[image_id] for image_id in galleries[product.pk] if image_id in images]
        product._prefetched_objects_cache = {"gallery": gallery}  # type: ignore[attr-defined]  # as Django does
    return products
