"""CSV files of the dashboard's tables."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from io import StringIO
from typing import Any

from shared.api.csv_cells import escape_csv_cell
from shared.api.money import to_major

MONEY_COLUMNS = frozenset({
    "revenue", "placed_revenue", "refunds", "average_order_value", "previous_revenue", "previous_placed_revenue",
    "previous_refunds",
})  # fmt: skip
ROWS_PER_CHUNK = 500


def csv_rows(items: Sequence[Any], row_type: type[Any], *, currency: str) -> Iterator[list[str]]:
    """Yield a header row, then a row for each item, a dataclass of `row_type`; see `data.TABLES`.

    Money is in major units and its header names the currency. None is an empty cell.
    """
    names = [field.name for field in fields(row_type)]
    yield [f"{name} ({currency})" if name in MONEY_COLUMNS else name for name in names]
    for item in items:
        values = asdict(item)
        yield [_cell(values[name], currency if name in MONEY_COLUMNS else "") for name in names]


def csv_chunks(rows: Iterable[Sequence[str]]) -> Iterator[bytes]:
    """Yield the file in chunks of ROWS_PER_CHUNK rows, after a byte order mark that tells spreadsheets it is UTF-8."""
    buffer = StringIO("\ufeff")
    buffer.seek(0, 2)
    writer = csv.writer(buffer)
    for number, row in enumerate(rows, 1):
        writer.writerow(row)
        if number % ROWS_PER_CHUNK == 0:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _cell(value: Any, currency: str) -> str:
    if value is None:
        return ""
    if currency:
        return str(to_major(value, currency))
    return escape_csv_cell(value) if isinstance(value, str) else str(value)
