"""Monthly partitions of the audit log in PostgreSQL. SQLite keeps one table.

Partitions are created ahead, while the default partition is empty: PostgreSQL would otherwise read it first. Entries
that found no partition of their month are in the default one until `create_partitions` gives them one.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from shared.audit.triggers import TABLE, create_triggers

DEFAULT = f"{TABLE}_default"
FIRST = f"{TABLE}_before"  # what was there before the table had partitions, with no beginning
MONTHS_AHEAD = 2
LOCK = 0x617564_6974  # "audit": one process at a time creates or drops partitions
LOCK_TIMEOUT = "500ms"  # clients wait behind this one for as long; below deadlock_timeout, as in `migrate`

# The bound is read as text: FOR VALUES FROM ('2026-11-01 00:00:00+00') TO ('2026-12-01 00:00:00+00').
_UPPER_BOUNDS = f"""
SELECT c.oid::regclass::text, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = '{TABLE}'::regclass AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
"""  # noqa: S608  # nosec B608  constants only


def month_of(moment: datetime) -> datetime:
    """Return the beginning of the month in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    return month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)


def create_partitions(connection: BaseDatabaseWrapper, *, now: datetime) -> list[str]:
    """Create the missing partitions of this month, the next ones and entries in the default partition.

    Return their names. Raises OperationalError if a transaction uses the table for longer than LOCK_TIMEOUT.
    """
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        months = {month_of(now)}
        for _ in range(MONTHS_AHEAD):
            months.add(next_month(max(months)))
        if not (_missing(cursor, months) or _read_default_months(cursor)) or not _lock(cursor):
            return []
        cursor.execute(f"LOCK TABLE {TABLE}")
        if not (waiting := _read_default_months(cursor)):
            return _create(cursor, months)
        # Entries are not deleted from a table: they are written again, and the table is dropped whole.
        cursor.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {DEFAULT}")
        created = _create(cursor, months | waiting)
        cursor.execute(f"INSERT INTO {TABLE} SELECT * FROM {DEFAULT}")  # noqa: S608  # nosec B608
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a table with pending checks cannot be altered
        cursor.execute(f"DROP TABLE {DEFAULT}")
        create_default(cursor)
        create_triggers(using=connection.alias)
        return created


def create_default(cursor: CursorWrapper) -> None:
    cursor.execute(f"CREATE TABLE {DEFAULT} PARTITION OF {TABLE} (PRIMARY KEY (id)) DEFAULT")


def drop_partitions(connection: BaseDatabaseWrapper, *, before: datetime) -> list[str]:
    """Drop the partitions whose entries are all older than `before`. Return their names."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if not _lock(cursor):
            return []
        old = [name for name, upper in _read_upper_bounds(cursor) if upper <= before]
        for name in old:
            cursor.execute(f"DROP TABLE {name}")
        return old


def _lock(cursor: CursorWrapper) -> bool:
    """Return whether this is the only transaction that changes partitions now."""
    cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
    return bool(cursor.fetchone()[0])


def _create(cursor: CursorWrapper, months: Iterable[datetime]) -> list[str]:
    created = {_partition_name(month): month for month in _missing(cursor, months)}
    for name, month in created.items():
        cursor.execute(
            f"CREATE TABLE {name} PARTITION OF {TABLE} (PRIMARY KEY (id)) FOR VALUES FROM (%s) TO (%s)",
            [month.isoformat(), next_month(month).isoformat()],
        )
    if created:
        create_triggers(using=cursor.db.alias)
    return list(created)


def _missing(cursor: CursorWrapper, months: Iterable[datetime]) -> list[datetime]:
    """Return the months that neither their own partition nor the first one, which has no beginning, covers."""
    bounds = dict(_read_upper_bounds(cursor))
    first = bounds.get(FIRST)
    return sorted(
        month for month in months if _partition_name(month) not in bounds and (first is None or month >= first)
    )


def _partition_name(month: datetime) -> str:
    return f"{TABLE}_{month:%Y_%m}"


def _read_default_months(cursor: CursorWrapper) -> set[datetime]:
    """Return the months of the entries in the default partition."""
    cursor.execute(f"SELECT DISTINCT date_trunc('month', at, 'UTC') FROM {DEFAULT}")  # noqa: S608  # nosec B608
    return {month_of(month) for (month,) in cursor.fetchall()}


def _read_upper_bounds(cursor: CursorWrapper) -> list[tuple[str, datetime]]:
    """Return each partition but the default one with the end of its range."""
    cursor.execute(_UPPER_BOUNDS)
    return list(cursor.fetchall())
