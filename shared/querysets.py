"""Reads of very many rows without an open cursor, and of rows with many ids."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from django.db.models import Model, QuerySet

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT", bound=Model)

ROWS_PER_QUERY = 500


def pages_by_pk(rows: "QuerySet[RowT]", *, page_size: int = ROWS_PER_QUERY) -> Iterator[list[RowT]]:
    """Yield the rows in the order of their primary keys, a query for each page.

    Between two pages the database connection may be closed: whoever reads slowly holds neither cursor nor transaction.
    """
    ordered = rows.order_by("pk")
    page = list(ordered[:page_size])
    while page:
        yield page
        page = list(ordered.filter(pk__gt=page[-1].pk)[:page_size]) if len(page) == page_size else []


def batches(items: Iterable[ItemT], size: int) -> Iterator[list[ItemT]]:
    """Yield lists of up to `size` items, as many as a database takes in one query."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
