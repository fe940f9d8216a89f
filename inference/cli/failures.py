"""How a verb fails: one line on stderr, exit status 1."""

from typing import NoReturn

import typer

from inference.engine import EngineError
from shared.api.errors import ApiError


def fail(reason: EngineError | ApiError | str) -> NoReturn:
    """End with this reason."""
    message = reason.problem.message if isinstance(reason, ApiError) else str(reason)
    typer.echo(f"stoa: {message}", err=True)
    raise typer.Exit(1)
