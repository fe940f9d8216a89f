"""How a verb fails: one line on stderr, and an exit status that a script can tell apart."""

from typing import NoReturn

import typer

from inference.cli.listings import printable
from inference.engine import ContextLengthExceeded, EngineError, HostUnavailable, InvalidRequest
from inference.remote.errors import RemoteUnavailable
from shared.api.errors import ApiError

FAILED = 1
WRONGLY_CALLED = 2
UNREACHABLE = 3
NOT_FOUND = 4


def fail(reason: EngineError | ApiError | str, status: int | None = None) -> NoReturn:
    """End with this reason: status 1, or 2 for a wrong parameter, 3 for no server, 4 for what is not there."""
    typer.echo(f"stoa: {message_of(reason)}", err=True)
    raise typer.Exit(_status(reason) if status is None else status)


def message_of(reason: EngineError | ApiError | str) -> str:
    """What went wrong, in words, some of which come from other servers: none that would steer a terminal."""
    message = reason.problem.message if isinstance(reason, ApiError) else str(reason)
    return "\n".join(map(printable, message.splitlines()))


def _status(reason: EngineError | ApiError | str) -> int:
    if isinstance(reason, HostUnavailable | RemoteUnavailable):
        return UNREACHABLE
    if isinstance(reason, InvalidRequest | ContextLengthExceeded):
        return WRONGLY_CALLED
    if isinstance(reason, ApiError):
        return {400: WRONGLY_CALLED, 404: NOT_FOUND, 503: UNREACHABLE}.get(reason.problem.status, FAILED)
    return FAILED
