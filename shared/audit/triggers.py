"""Database triggers that refuse to change or delete audit entries, and in PostgreSQL to truncate the table.

They are created after every migration and not by one, because SQLite drops the triggers of a table that it rebuilds.
A system check reports missing triggers.
"""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Warning
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLE = "audit_auditentry"
TRIGGER_NAMES = {"UPDATE": "audit_entry_not_updated", "DELETE": "audit_entry_not_deleted"}
TRUNCATE_TRIGGER_NAME = "audit_entries_not_emptied"  # PostgreSQL only: SQLite has no TRUNCATE
ERROR_MESSAGE = "The audit log is append-only."
# An empty log may be truncated, as `flush` does.
POSTGRESQL_FUNCTION = f"""
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF TG_OP <> 'TRUNCATE' OR EXISTS (SELECT FROM {TABLE}) THEN
        RAISE EXCEPTION '{ERROR_MESSAGE}' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$
"""  # nosec B608  constants only


def create_triggers(*, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Create the triggers after `migrate`. Creating them again changes nothing."""
    connection = connections[using]
    if TABLE not in connection.introspection.table_names():
        return  # migrated back to before the first migration
    with connection.cursor() as cursor:
        for statement in _statements(connection):
            cursor.execute(statement)
        for partition in partition_names(connection):
            cursor.execute(_truncate_trigger(partition))


def partition_names(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the names of the partitions, which get the triggers of rows from their table, but not that of TRUNCATE."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [TABLE])
        return [name for (name,) in cursor.fetchall()]


def trigger_names(connection: BaseDatabaseWrapper) -> set[str]:
    """Return the names of the triggers that this database needs."""
    return {*TRIGGER_NAMES.values(), *([TRUNCATE_TRIGGER_NAME] if connection.vendor == "postgresql" else [])}


def missing_triggers(*, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Return the names of missing or disabled triggers of an existing table."""
    connection = connections[using]
    if TABLE not in connection.introspection.table_names():
        return []
    tables = [TABLE, *partition_names(connection)]
    needed = trigger_names(connection)
    return sorted({name for table in tables for name in needed - _enabled_triggers(connection, table)})


def _enabled_triggers(connection: BaseDatabaseWrapper, table: str) -> set[str]:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgenabled <> 'D'", [table])
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [table])
        return {name for (name,) in cursor.fetchall()}


def check_triggers(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Return a warning, not an error, because `migrate` runs the checks before it creates the triggers."""
    return [
        Warning(
            f"The audit log in the database {alias!r} can be changed: {', '.join(missing)} is missing.",
            hint="Run manage_commerce.py migrate, which creates it again.",
            id="audit.W001",
        )
        for alias in databases or ()
        if (missing := missing_triggers(using=alias))
    ]


def _truncate_trigger(table: str) -> str:
    return (
        f"CREATE OR REPLACE TRIGGER {TRUNCATE_TRIGGER_NAME} BEFORE TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()"
    )


def _statements(connection: BaseDatabaseWrapper) -> list[str]:
    if connection.vendor == "postgresql":
        return [
            POSTGRESQL_FUNCTION,
            _truncate_trigger(TABLE),
            *(
                f"CREATE OR REPLACE TRIGGER {name} BEFORE {event} ON {TABLE} "
                "FOR EACH ROW EXECUTE FUNCTION audit_refuse()"
                for event, name in TRIGGER_NAMES.items()
            ),
        ]
    return [
        f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {event} ON {TABLE} "
        f"BEGIN SELECT RAISE(ABORT, '{ERROR_MESSAGE}'); END"
        for event, name in TRIGGER_NAMES.items()
    ]
