"""What is said of a database that does not answer, or has no tables yet."""

import contextlib
from typing import NoReturn

import typer
from django.db import DatabaseError, connection

from inference.cli.failures import FAILED, UNREACHABLE, fail, message_of
from inference.registry.models import WantedModel

MIGRATE = "Where it is new, or older than this version of Stoa, run `stoa migrate`."


def refuse_empty_database() -> None:
    """Ends the command where the database has no tables. One that does not answer may yet come."""
    with contextlib.suppress(DatabaseError):
        if WantedModel._meta.db_table not in connection.introspection.table_names():
            fail(f"The database {connection.settings_dict['NAME']} has no tables. {MIGRATE}", FAILED)


def end_without_database(error: DatabaseError) -> NoReturn:
    """For a command that met it on its way."""
    reason = message_of(str(error)).partition("\n")[0].rstrip(".")
    typer.echo(f"stoa: The database does not answer as it should: {reason}. {MIGRATE}", err=True)
    raise SystemExit(UNREACHABLE)
