"""`models list`: which models there are."""

import asyncio
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from inference.protocol import native
from inference.registry.services import list_models

app = typer.Typer(help="The models of this machine.", no_args_is_help=True)


@app.callback()
def models() -> None:
    """The models of this machine."""


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="As GET /models answers.")] = False) -> None:
    """List every model, loaded or not."""
    found = asyncio.run(list_models())
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(native.ModelList(found))).decode())
        return
    table = Table("id", "state", "capabilities", "context", "size", "why not")
    for model in found:
        size = f"{model.size_bytes / 1_000_000:.1f} MB"
        capabilities = ", ".join(model.capabilities)
        table.add_row(model.id, model.state, capabilities, str(model.context_size), size, model.error or "")
    Console().print(table)
