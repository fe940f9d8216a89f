"""The command `chat`."""

from typing import Annotated

import typer

from inference.cli.commands.run import run


def chat(
    model: Annotated[str, typer.Argument(help="The model's id, as `stoa models list` shows it.")],
    system: Annotated[str | None, typer.Option("--system", "-s", help="The system message.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="Any generation parameter. May be repeated."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show timings for each response.")] = False,
) -> None:
    """Chat with a model on this terminal, as `run` without a prompt. Type /help there for its commands."""
    run(model, system=system, option=option, verbose=verbose)
