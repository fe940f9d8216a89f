"""The database's own refusal to change or delete an audit entry.

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
REFUSAL = "The audit log is append-only."
POSTGRESQL_FUNCTION = f"""
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'restrict_violation'; END $$
"""


def make_triggers(*, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """A receiver of post_migrate. Making them anew changes nothing."""
    connection = connections[using]
    if TABLE not in connection.introspection.table_names():
        return  # migrated back to before it
    with connection.cursor() as cursor:
        for statement in _statements(connection):
            cursor.execute(statement)


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
    return sorted(set(NAMES.values()) - there)


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
        return [POSTGRESQL_FUNCTION] + [
            f"CREATE OR REPLACE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse()"
            for event, name in NAMES.items()
        ]
    return [
        f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {event} ON {TABLE} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        for event, name in NAMES.items()
    ]
