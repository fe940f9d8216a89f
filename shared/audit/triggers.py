"""The database's own refusal to change or delete an audit entry, and PostgreSQL's to empty the table.

Made after every migration, and not by one: SQLite rebuilds a table for most changes of it, and drops its triggers
without a word. A check tells where they are missing.
"""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Warning
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLE = "audit_auditentry"
NAMES = {"UPDATE": "audit_entry_not_updated", "DELETE": "audit_entry_not_deleted"}
NOT_EMPTIED = "audit_entries_not_emptied"  # PostgreSQL's alone: SQLite has no TRUNCATE
REFUSAL = "The audit log is append-only."
# An empty log may be emptied: whoever flushes a whole database of tables without a row loses nothing.
POSTGRESQL_FUNCTION = f"""
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF TG_OP <> 'TRUNCATE' OR EXISTS (SELECT FROM {TABLE}) THEN
        RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$
"""  # nosec B608  names of our own


def create_triggers(*, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """A receiver of post_migrate. Making them anew changes nothing."""
    connection = connections[using]
    if TABLE not in connection.introspection.table_names():
        return  # migrated back to before it
    with connection.cursor() as cursor:
        for statement in _statements(connection):
            cursor.execute(statement)


def trigger_names(connection: BaseDatabaseWrapper) -> set[str]:
    """Those that there are to be in this kind of database."""
    return {*NAMES.values(), *([NOT_EMPTIED] if connection.vendor == "postgresql" else [])}


def missing_triggers(*, using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """The names of those that are not there, or are switched off, though their table is."""
    connection = connections[using]
    if TABLE not in connection.introspection.table_names():
        return []
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND tgenabled <> 'D'", [TABLE]
            )  # fmt: skip
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [TABLE])
        there = {name for (name,) in cursor.fetchall()}
    return sorted(trigger_names(connection) - there)


def check_triggers(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """A warning, not an error: `migrate` checks before it migrates, and makes them."""
    return [
        Warning(
            f"The audit log in the database {alias!r} can be changed: {', '.join(missing)} is missing.",
            hint="Run manage_commerce.py migrate, which makes it anew.",
            id="audit.W001",
        )
        for alias in databases or ()
        if (missing := missing_triggers(using=alias))
    ]


def _statements(connection: BaseDatabaseWrapper) -> list[str]:
    if connection.vendor == "postgresql":
        whens = [(name, f"BEFORE {event}", "ROW") for event, name in NAMES.items()]
        whens.append((NOT_EMPTIED, "BEFORE TRUNCATE", "STATEMENT"))
        return [POSTGRESQL_FUNCTION] + [
            f"CREATE OR REPLACE TRIGGER {name} {when} ON {TABLE} FOR EACH {each} EXECUTE FUNCTION audit_refuse()"
            for name, when, each in whens
        ]
    return [
        f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {event} ON {TABLE} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        for event, name in NAMES.items()
    ]
