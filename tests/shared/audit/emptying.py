"""Emptying of the audit log after tests of several transactions, which the database refuses."""

from django.db import connection
from django.test import TransactionTestCase

from shared.audit.models import AuditEntry
from shared.audit.triggers import TABLE, TRUNCATE_TRIGGER_NAME, partition_names, trigger_names

_empty_database = TransactionTestCase._fixture_teardown


def empty_database(case: TransactionTestCase) -> None:
    """Empty all tables, the log included. Django does so with `flush`, which creates the triggers again."""
    if AuditEntry.objects.exists():
        _drop_triggers()
    _empty_database(case)


def _drop_triggers() -> None:
    with connection.cursor() as cursor:
        for name in trigger_names(connection):
            cursor.execute(f"DROP TRIGGER {name}" + (f" ON {TABLE}" if connection.vendor == "postgresql" else ""))
        for partition in partition_names(connection):
            cursor.execute(f"DROP TRIGGER IF EXISTS {TRUNCATE_TRIGGER_NAME} ON {partition}")
