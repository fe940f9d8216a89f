"""Output of lists: a table on a terminal, tab-separated lines with a header elsewhere, or JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"  # of sizes

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under the names of their columns."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            typer.echo("\t".join(escape_control_characters(str(value)) for value in row))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(escape_control_characters(str(value))) for value in row))
    Console().print(table)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def escape_control_characters(text: str) -> str:
    """Replace characters that control a terminal: names and messages come from files and from other servers."""
    printable = (
        character if character.isprintable() or character == NO_BREAK_SPACE else REPLACEMENT for character in text
    )
    return "".join(printable)


def format_bytes(count: int) -> str:
    """Return a size as text: "1.5 GB"."""
    number, unit = float(count), "B"
    for larger_unit in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger_unit
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
