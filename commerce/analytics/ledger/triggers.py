"""Install, remove and check the triggers that write the ledger.

SQLite silently drops a table's triggers when a migration rebuilds the table, and cannot rebuild a table that another
table's trigger names. On SQLite the triggers are therefore removed before a migration and installed again after it.
"""

from collections.abc import Collection

from django.db import connection

from commerce.analytics.ledger import postgresql, sqlite
from commerce.analytics.ledger.entries import LINES, ORDERS, REFUNDS, REVIEWS, USERS

TABLES = (REVIEWS, REFUNDS, ORDERS, LINES, USERS)  # the order in which the shop writes to them


def are_installed() -> bool:
    """Return whether every trigger exists and is enabled, from whichever release."""
    return _expected().keys() <= _installed().keys()


def are_current() -> bool:
    """Return whether the triggers are exactly those of this release."""
    return _installed() == _expected()


def install() -> None:
    """Replace all triggers by those of this release; call it in a transaction.

    PostgreSQL blocks writes to the tables until the transaction ends, and reads of a table from which a trigger of
    another release is dropped.
    """
    if connection.vendor == "postgresql":
        _install_in_postgresql()
        return
    remove()
    with connection.cursor() as cursor:
        for statement in sqlite.trigger_statements().values():
            cursor.execute(statement)


def _install_in_postgresql() -> None:
    """Replace the triggers; locking the tables in the order in which the shop writes to them avoids deadlocks."""
    expected = postgresql.trigger_definitions()
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(TABLES)} IN SHARE ROW EXCLUSIVE MODE")
        _drop_in_postgresql(keep={(name, table) for name, (table, _, _) in expected.items()})
        for name, (table, event, body) in expected.items():
            planner_settings = postgresql.PLANNER_SETTINGS
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {planner_settings} "
                f"AS $body${body}$body$"
            )
            on_table = "" if " ON " in event else f" ON {table}"
            cursor.execute(
                f"CREATE OR REPLACE TRIGGER {name} {event}{on_table} FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
            )


def remove() -> None:
    """Drop every ledger trigger, those of other releases included."""
    if connection.vendor == "postgresql":
        _drop_in_postgresql()
        return
    with connection.cursor() as cursor:
        for name in _installed():
            cursor.execute(f"DROP TRIGGER {name}")


def _drop_in_postgresql(*, keep: Collection[tuple[str, str]] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger "
            "WHERE starts_with(tgname, %s) AND tgrelid::regclass::text = ANY(%s)",
            [postgresql.PREFIX, list(TABLES)],
        )
        for name, table in cursor.fetchall():
            if (name, table) not in keep:
                cursor.execute(f'DROP TRIGGER "{name}" ON "{table}"')


def _expected() -> dict[str, str]:
    """Return the statement (SQLite) or function body (PostgreSQL) of each trigger, by name."""
    if connection.vendor == "sqlite":
        return sqlite.trigger_statements()
    return {name: body for name, (_, _, body) in postgresql.trigger_definitions().items()}


def _installed() -> dict[str, str]:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, %s) = %s",
                [len(sqlite.PREFIX), sqlite.PREFIX],
            )
        else:
            cursor.execute(
                "SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
                "WHERE starts_with(t.tgname, %s) AND t.tgrelid::regclass::text = ANY(%s) AND t.tgenabled IN ('O', 'A')",
                [postgresql.PREFIX, list(TABLES)],
            )
        return dict(cursor.fetchall())
