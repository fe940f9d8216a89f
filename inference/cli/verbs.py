"""The verbs of the command line."""

import os
from typing import Annotated

import typer
from django.conf import settings

from inference.cli import about, batch, keys, models, webhooks
from inference.cli.bench import bench
from inference.cli.run import run
from inference.cli.running import ps
from inference.cli.serve import serve
from inference.cli.worker import worker
from inference.registry.processes import host_command

app = typer.Typer(
    name="stoa",
    help="The model server. Verbs that are not listed here are Django's: migrate, check, createsuperuser, ...",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(worker)
app.command()(run)
app.command()(ps)
app.command()(bench)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(batch.app, name="batch")
app.add_typer(webhooks.app, name="webhooks")
app.command()(about.version)
app.command()(about.info)


@app.command()
def host(
    die_with_parent: Annotated[bool, typer.Option(help="End when the process that started this one ends.")] = False,
) -> None:
    """Run a model host alone: servers and workers of this machine use it."""
    command = host_command(settings.RUN_DIR) + (["--die-with-parent"] if die_with_parent else [])
    os.execv(command[0], command)  # noqa: S606 our own module, which needs nothing of what is imported here


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False) -> None:
    """The model server."""
    if version:
        about.version()
        raise typer.Exit


def verb_names() -> set[str]:
    """Every first word that is ours."""
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    return commands | {group.name for group in app.registered_groups if group.name}
