"""The Typer application with all commands."""

import os
from typing import Annotated

import typer
from django.conf import settings

from inference.cli.commands import batch, engines, info, keys, models, pools, webhooks
from inference.cli.commands.bench import bench
from inference.cli.commands.chat import chat
from inference.cli.commands.doctor import doctor
from inference.cli.commands.logs import logs
from inference.cli.commands.ps import ps
from inference.cli.commands.run import run
from inference.cli.commands.runserver import runserver
from inference.cli.commands.serve import serve
from inference.cli.commands.worker import worker
from inference.registry.supervisor import host_command

app = typer.Typer(
    name="stoa",
    help="The model server. Django's commands work too: migrate, check, createsuperuser, ...",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    runserver
)
app.command()(worker)
app.command()(run)
app.command()(chat)
app.command()(ps)
app.command()(bench)
app.add_typer(models.app, name="models")
app.add_typer(pools.app, name="pools")
app.add_typer(engines.app, name="engines")
app.add_typer(keys.app, name="keys")
app.add_typer(batch.app, name="batch")
app.add_typer(webhooks.app, name="webhooks")
app.command()(info.version)
app.command()(info.info)
app.command()(doctor)
app.command()(logs)


@app.command()
def host(
    die_with_parent: Annotated[bool, typer.Option(help="Exit when the process that started this one exits.")] = False,
) -> None:
    """Run a model host alone. Servers and workers of this machine use it."""
    command = host_command(settings.RUN_DIR) + (["--die-with-parent"] if die_with_parent else [])
    os.execv(command[0], command)  # noqa: S606 a module of this package, which needs none of the imports above


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    """Run the model server and its tools."""
    if version:
        info.version()
        raise typer.Exit


def command_names() -> set[str]:
    """Return the names of all commands and command groups."""
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    return commands | {group.name for group in app.registered_groups if group.name}
