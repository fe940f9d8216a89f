"""Figures as the rows of a CSV file."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from shared.api.money import to_major

MONEY = frozenset({"revenue", "refunds"})
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def csv_rows(things: Sequence[Any], kind: type[Any], *, currency: str) -> Iterator[list[str]]:
    """A row of names, then one for each of `things`, which are dataclasses of `kind`: Point, ShopSums, CategoryCount.
    Money is in major units, and its column says of what."""
    names = [field.name for field in fields(kind)]
    yield [f"{name} ({currency})" if name in MONEY else name for name in names]
    for thing in things:
        values = asdict(thing)
        yield [_cell(values[name], currency if name in MONEY else "") for name in names]


def _cell(value: Any, currency: str) -> str:
    """What a spreadsheet would take for a formula has an apostrophe before it."""
    if currency:
        return str(to_major(value, currency))
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULAS) else text
