"""The command group `engines`."""

from typing import Annotated

import msgspec
import typer
from django.conf import settings

from inference.cli.errors import exit_with_error
from inference.cli.output import JsonOption, print_json, print_table
from inference.cli.server import require_local
from inference.engine import EngineError, InstallationFailed, install_engine, list_engines

app = typer.Typer(help="Manage other engines, which run models on this machine in Stoa's place.", no_args_is_help=True)


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List all engines that Stoa knows, installed or not."""
    require_local("engines list")
    engines = list_engines(settings.ENGINES_DIR)
    if as_json:
        print_json([msgspec.to_builtins(engine) for engine in engines])
        return
    columns = ("engine", "version", "installed", "files", "engine_options")
    print_table(
        columns,
        ((one.name, one.version or "-", "yes" if one.installed else "no", one.format, ", ".join(one.options) or "-")
         for one in engines),
    )  # fmt: skip


@app.command()
def install(
    engine: Annotated[str, typer.Argument(help="vllm or llama.cpp.")],
) -> None:
    """Install an engine on this machine: vLLM in a virtual environment of its own, llama.cpp from its source."""
    require_local("engines install")
    try:
        folder = install_engine(engine, settings.ENGINES_DIR, lambda line: typer.echo(line, err=True))
    except EngineError as error:
        exit_with_error(error)
    except InstallationFailed as failure:
        exit_with_error(str(failure))
    typer.echo(f"Installed {engine} in {folder}")
