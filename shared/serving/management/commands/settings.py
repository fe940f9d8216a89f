"""The `settings` command: documentation of the environment variables, as Markdown."""

from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from shared.environment import FALSE_STRINGS, TRUE_STRINGS
from shared.variables import BOTH, COMMERCE, INFERENCE, VARIABLES, Variable

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operator" / "settings.md"

INTRODUCTION = f"""\
# Settings

<!-- Generated from shared/variables.py by `python manage_commerce.py settings --write`. Do not edit. -->

Every setting is an environment variable. A file `.env` in `STOA_HOME`, or in the working directory, may hold them as
`NAME=value` lines; a variable of the environment wins over the file. Both projects may share one file.

A value of the wrong type, format or range stops the start with a message that names the variable. So does a name that
begins with `STOA_` and is not listed here; a renamed setting is refused with its new name. Commands of `stoa` other
than servers only warn of such a name, and go on without it.

* Sizes are bytes: `2000000000`, `2GB` (1000³) or `2GiB` (1024³).
* Booleans are `{"`, `".join(TRUE_STRINGS)}` or `{"`, `".join(filter(None, FALSE_STRINGS))}`, in any case.
* Integers and decimal numbers are 0 or more unless the table says otherwise.
"""
SECTIONS = {"Both projects": BOTH, "The shop": COMMERCE, "The model server": INFERENCE}


class Command(BaseCommand):
    help = "Print the environment variables of this project as a Markdown table."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help=f"write docs/operator/{PAGE.name} instead")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["write"]:
            PAGE.write_text(settings_page())
        else:
            self.stdout.write(table(variable for variable in VARIABLES if settings.PROJECT in variable.projects))


def settings_page() -> str:
    """Return the page of all variables: those of both projects, of the shop and of the model server."""
    sections = (
        f"## {title}\n\n{table(variable for variable in VARIABLES if variable.projects == projects)}\n"
        for title, projects in SECTIONS.items()
    )
    return "\n".join([INTRODUCTION, *sections])


def table(variables: Iterable[Variable]) -> str:
    """Return the variables as a Markdown table."""
    rows = [
        f"| `{variable.name}` | {variable.type.value} | {variable.documented_default} | {_bounds(variable)} | "
        f"{variable.description} |"
        for variable in variables
    ]
    return "\n".join(["| Variable | Type | Default | Values | Description |", "|---|---|---|---|---|", *rows])


def _bounds(variable: Variable) -> str:
    if variable.choices:
        return ", ".join(f"`{choice}`" for choice in variable.choices)
    if variable.format:
        return f"as in {' or '.join(f'`{example}`' for example in variable.format.examples)}"
    return variable.bounds
