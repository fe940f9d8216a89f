"""Exit codes and error messages of the commands: one line on stderr, and a code that a script can tell apart."""

from typing import NoReturn

import typer

from inference.cli.output import escape_control_characters
from inference.engine import ContextLengthExceeded, EngineError, HostUnavailable, InvalidRequest
from inference.remote.errors import RemoteUnavailable
from shared.api.errors import ApiError

EXIT_FAILURE = 1
EXIT_USAGE = 2  # a wrong argument or parameter, as Typer's own errors
EXIT_UNAVAILABLE = 3  # a server or the database does not answer
EXIT_NOT_FOUND = 4

CommandError = EngineError | ApiError | str


def exit_with_error(error: CommandError, exit_code: int | None = None) -> NoReturn:
    """Print an error and exit. The default exit code follows from the error's class or HTTP status."""
    typer.echo(f"stoa: {error_message(error)}", err=True)
    raise typer.Exit(_exit_code(error) if exit_code is None else exit_code)


def error_message(error: CommandError) -> str:
    """Return the message of an error, without control characters that a remote server may have put into it."""
    message = error.problem.message if isinstance(error, ApiError) else str(error)
    return "\n".join(map(escape_control_characters, message.splitlines()))


def _exit_code(error: CommandError) -> int:
    if isinstance(error, HostUnavailable | RemoteUnavailable):
        return EXIT_UNAVAILABLE
    if isinstance(error, InvalidRequest | ContextLengthExceeded):
        return EXIT_USAGE
    if isinstance(error, ApiError):
        codes = {400: EXIT_USAGE, 404: EXIT_NOT_FOUND, 503: EXIT_UNAVAILABLE}
        return codes.get(error.problem.status, EXIT_FAILURE)
    return EXIT_FAILURE
