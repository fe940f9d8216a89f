"""How lists are printed: a table on a terminal, tab-separated lines elsewhere, JSON when it is asked for."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


def print_list(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """The names of the columns are shown on a terminal only."""
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo("\t".join(printable(str(value)) for value in row))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(printable(str(value))) for value in row))
    Console().print(table)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def printable(text: str) -> str:
    """Without what would steer a terminal: names and reasons come from files and from other servers."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def size(bytes_: int) -> str:
    """For people: 1.5 GB."""
    number, unit = float(bytes_), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
