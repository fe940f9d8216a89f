"""Errors of a database that does not answer or has no tables."""

import contextlib
from typing import NoReturn

import typer
from django.db import DatabaseError, connection

from inference.cli.errors import EXIT_FAILURE, EXIT_UNAVAILABLE, error_message, exit_with_error
from inference.registry.models import DesiredModel

MIGRATE_HINT = "Run `stoa migrate` if it is new, or older than this version of Stoa."


def require_tables() -> None:
    """Exit if the database has no tables. Do nothing if it does not answer: it may still be starting."""
    with contextlib.suppress(DatabaseError):
        if DesiredModel._meta.db_table not in connection.introspection.table_names():
            name = connection.settings_dict["NAME"]
            exit_with_error(f"The database {name} has no tables. {MIGRATE_HINT}", EXIT_FAILURE)


def exit_with_database_error(error: DatabaseError) -> NoReturn:
    """Exit from a command that a database error has ended."""
    reason = error_message(str(error)).partition("\n")[0].rstrip(".")
    typer.echo(f"stoa: The database reports an error: {reason}. {MIGRATE_HINT}", err=True)
    raise SystemExit(EXIT_UNAVAILABLE)
