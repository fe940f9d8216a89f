"""Making the triggers that write the ledger, and finding out whether they are all there.

SQLite drops a table's triggers silently when a migration rebuilds the table, and cannot rebuild one that triggers of
another table name. So there they are taken away before a migration and made again after it.
"""

from collections.abc import Collection

from django.db import connection

from commerce.analytics import contributions as of
from commerce.analytics import triggers_postgresql, triggers_sqlite

TABLES = (of.REVIEWS, of.REFUNDS, of.ORDERS, of.LINES, of.USERS)


def are_there() -> bool:
    """Whether every trigger is there and enabled, whichever version made it."""
    return _wanted().keys() <= _there().keys()


def are_right() -> bool:
    """Whether they are as this version makes them, too."""
    return _there() == _wanted()


def make() -> None:
    """Makes all of them anew. In a transaction; PostgreSQL lets nobody write to the tables until it ends, and nobody
    read one that an earlier version had another trigger on."""
    if connection.vendor == "postgresql":
        _make_in_postgresql()
        return
    remove()
    with connection.cursor() as cursor:
        for statement in triggers_sqlite.triggers().values():
            cursor.execute(statement)


def _make_in_postgresql() -> None:
    """The tables are locked in an order in which the shop writes to them: else a write might wait for this, and this
    for the write."""
    wanted = triggers_postgresql.triggers()
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(TABLES)} IN SHARE ROW EXCLUSIVE MODE")
        _drop_in_postgresql(but={(name, table) for name, (table, _, _) in wanted.items()})
        for name, (table, event, body) in wanted.items():
            careful = triggers_postgresql.CAREFUL
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql {careful} AS $body${body}$body$"
            )
            row = "" if " ON " in event else f" ON {table}"
            cursor.execute(
                f"CREATE OR REPLACE TRIGGER {name} {event}{row} FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
            )


def remove() -> None:
    """Takes away every trigger of ours, also those that an earlier version made."""
    if connection.vendor == "postgresql":
        _drop_in_postgresql()
        return
    with connection.cursor() as cursor:
        for name in _there():
            cursor.execute(f"DROP TRIGGER {name}")


def _drop_in_postgresql(*, but: Collection[tuple[str, str]] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger "
            "WHERE starts_with(tgname, %s) AND tgrelid::regclass::text = ANY(%s)",
            [triggers_postgresql.PREFIX, list(TABLES)],
        )
        for name, table in cursor.fetchall():
            if (name, table) not in but:
                cursor.execute(f'DROP TRIGGER "{name}" ON "{table}"')


def _wanted() -> dict[str, str]:
    if connection.vendor == "sqlite":
        return triggers_sqlite.triggers()
    return {name: body for name, (_, _, body) in triggers_postgresql.triggers().items()}


def _there() -> dict[str, str]:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, %s) = %s",
                [len(triggers_sqlite.PREFIX), triggers_sqlite.PREFIX],
            )
        else:
            cursor.execute(
                "SELECT t.tgname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
                "WHERE starts_with(t.tgname, %s) AND t.tgrelid::regclass::text = ANY(%s) AND t.tgenabled IN ('O', 'A')",
                [triggers_postgresql.PREFIX, list(TABLES)],
            )
        return dict(cursor.fetchall())
