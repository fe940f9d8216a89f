"""Conversion between cells of a CSV file and fields of a request body."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from shared.api import csv_files
from shared.api.exception_handler import validation_problem

_AMOUNT = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?\Z", re.ASCII)


def read_lines(
    content: bytes,
    *,
    columns: Sequence[str],
    one_of: Sequence[str],
    serializer: serializers.Serializer[Any],
    to_body: Callable[[Mapping[str, str]], dict[str, Any]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the validated values of each line that is valid.

    `to_body` makes a request body of the cells. Raises ValidationFailed, after the last line if lines have errors; its
    keys name the line, as in `csv.3`.
    """
    errors = csv_files.LineErrors()
    for line, cells in csv_files.read_csv(content, columns=columns, one_of=one_of):
        serializer.initial_data = to_body(cells)  # it has the currency of its amounts
        try:
            values = serializer.run_validation(serializer.initial_data)
        except serializers.ValidationError as error:
            errors.add(line, line_messages(error))
        else:
            yield line, values
    errors.raise_any()


def sent_fields(
    cells: Mapping[str, str], *, needed: Collection[str], lists: Collection[str], amounts: Collection[str]
) -> dict[str, Any]:
    """Return the cells as fields of a JSON body.

    An empty cell of a `needed` column is left out; in any other column it is an empty list or text, or null for an
    amount and the id of an image.
    """
    fields: dict[str, Any] = {}
    for name, cell in cells.items():
        if not cell and name in needed:
            continue
        if name in lists:
            fields[name] = [part.strip() for part in cell.split(",") if part.strip()]
        elif not cell and (name in amounts or name == "image"):
            fields[name] = None
        else:
            fields[name] = _number(cell) if name in amounts else cell
    return fields


def _number(cell: str) -> int | float | str:
    """Return the amount of a cell as a JSON number; any other text as it is, which is then invalid."""
    if not _AMOUNT.match(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


def amount_cell(amount: Decimal) -> str:
    """Return an amount of major units without an exponent, as in 12.50."""
    return format(amount, "f")


def cell_of_names(rows: Iterable[Any], language: str) -> str:
    """Return the slugs of rows in this language, and the ids of others, separated by commas."""
    return ",".join(row.slug if row.language == language else str(row.pk) for row in rows)


def line_messages(error: serializers.ValidationError) -> Iterator[str]:
    """Yield each message of a serializer's error with the name of its column."""
    for path, texts in (validation_problem(error.detail).errors or {}).items():
        yield from (f"{path.removesuffix('.non_field_errors')}: {text}" for text in texts)
