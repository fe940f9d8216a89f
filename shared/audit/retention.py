"""Retention of the audit log: entries of whole months are removed once the newest is older than the retention."""

from datetime import datetime

from django.conf import settings
from django.db import connection, transaction

from shared.audit.models import AuditEntry
from shared.audit.partitions import create_partitions, drop_partitions, month_of
from shared.audit.triggers import TABLE, TRIGGER_NAMES, create_triggers


def maintain(*, now: datetime) -> None:
    """Create the partitions of the next months, and remove the months beyond the retention."""
    before = month_of(now - settings.AUDIT_RETENTION)
    if connection.vendor == "postgresql":
        create_partitions(connection, now=now)
        drop_partitions(connection, before=before)
    elif AuditEntry.objects.filter(at__lt=before).exists():
        _delete_by_date(before)


def _delete_by_date(before: datetime) -> None:
    """Delete the entries in the one transaction of SQLite that writes, so that no other finds the trigger missing."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER IF EXISTS {TRIGGER_NAMES['DELETE']}")
        moment = connection.ops.adapt_datetimefield_value(before)
        cursor.execute(f"DELETE FROM {TABLE} WHERE at < %s", [moment])  # noqa: S608  # nosec B608  a constant
        create_triggers()
