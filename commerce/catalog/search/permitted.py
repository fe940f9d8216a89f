"""Restriction of the index to the products that a user may see, before the best of those that match are taken."""

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from commerce.catalog.models import Product


def exists_in(products: "QuerySet[Product]", column: str) -> tuple[str, list[Any]]:
    """Return the SQL condition that `products` has the id in a column of the index, and its parameters."""
    rows = products.order_by().filter(pk=RawSQL(column, [])).values("pk")  # noqa: S611  # nosec B611
    try:
        sql, parameters = rows.query.sql_with_params()
    except EmptyResultSet:
        return "1 = 0", []
    return f"EXISTS ({sql})", list(parameters)
