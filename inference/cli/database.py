"""The needs of a server or worker at its start, and errors of a database that does not answer."""

import contextlib
import threading
import time
from typing import NoReturn

import structlog
import typer
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from inference.cli.errors import EXIT_FAILURE, EXIT_UNAVAILABLE, EXIT_USAGE, error_message, exit_with_error
from inference.pools.setting_import import SettingRefused, import_remote_models
from inference.registry.models import DesiredModel

IMPORT_RETRY_SECONDS = 2.0
MIGRATE_HINT = "Run `stoa migrate` if it is new, or older than this version of Stoa."

logger = structlog.get_logger(__name__)


def require_tables() -> None:
    """Exit if the database has no tables. Do nothing if it does not answer: it may still be starting."""
    with contextlib.suppress(DatabaseError):
        if DesiredModel._meta.db_table not in connection.introspection.table_names():
            name = connection.settings_dict["NAME"]
            exit_with_error(f"The database {name} has no tables. {MIGRATE_HINT}", EXIT_FAILURE)


def import_settings() -> None:
    """Import the setting STOA_REMOTE_MODELS at the first start with it, and exit if it was changed after that.

    If the database does not answer, a thread imports it once it does.
    """
    try:
        import_remote_models(now=timezone.now())
    except SettingRefused as error:
        exit_with_error(str(error), EXIT_USAGE)
    except DatabaseError as error:
        logger.warning("remote_models_not_imported", error=type(error).__name__)
        threading.Thread(target=_import_later, name="settings-import", daemon=True).start()


def _import_later() -> None:
    while True:
        time.sleep(IMPORT_RETRY_SECONDS)
        try:
            import_remote_models(now=timezone.now())
        except DatabaseError:
            continue
        except SettingRefused as error:
            logger.error("remote_models_refused", reason=str(error))
        finally:
            connection.close()
        return


def exit_with_database_error(error: DatabaseError) -> NoReturn:
    """Exit from a command that a database error has ended."""
    reason = error_message(str(error)).partition("\n")[0].rstrip(".")
    typer.echo(f"stoa: The database reports an error: {reason}. {MIGRATE_HINT}", err=True)
    raise SystemExit(EXIT_UNAVAILABLE)
