"""Figures as the rows of a CSV file."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from io import StringIO
from typing import Any

from shared.api.money import to_major
from shared.api.spreadsheets import text_cell

MONEY = frozenset({"revenue", "refunds", "previous_revenue", "previous_refunds"})
ROWS_AT_ONCE = 500


def csv_rows(things: Sequence[Any], kind: type[Any], *, currency: str) -> Iterator[list[str]]:
    """A row of names, then one for each of `things`, which are dataclasses of `kind`, as in `dashboard_figures.TABLES`.
    Money is in major units, and its column says of what; what there is not is empty."""
    names = [field.name for field in fields(kind)]
    yield [f"{name} ({currency})" if name in MONEY else name for name in names]
    for thing in things:
        values = asdict(thing)
        yield [_cell(values[name], currency if name in MONEY else "") for name in names]


def csv_pieces(rows: Iterable[Sequence[str]]) -> Iterator[bytes]:
    """The file, some hundreds of rows a piece. A mark in front tells spreadsheets that it is UTF-8."""
    page = StringIO("\ufeff")
    page.seek(0, 2)
    writer = csv.writer(page)
    for number, row in enumerate(rows, 1):
        writer.writerow(row)
        if number % ROWS_AT_ONCE == 0:
            yield page.getvalue().encode()
            page.seek(0)
            page.truncate()
    yield page.getvalue().encode()


def _cell(value: Any, currency: str) -> str:
    if value is None:
        return ""
    if currency:
        return str(to_major(value, currency))
    return text_cell(value) if isinstance(value, str) else str(value)
