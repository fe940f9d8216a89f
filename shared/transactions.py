"""Transactions that read one snapshot of the database, and connections that nobody holds while they wait."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def read_snapshot() -> Iterator[None]:
    """Run queries that all see one snapshot; inside a transaction, the one that this transaction sees."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":  # atomic() would wait for the writers' lock
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with write_snapshot():
            yield


@contextmanager
def write_snapshot() -> Iterator[None]:
    """Run a transaction that sees one snapshot.

    PostgreSQL rolls it back if another transaction has changed the same rows since; it may be tried again. SQLite has
    one writer at a time.
    """
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def close_connection() -> None:
    """Close this thread's database connection before a wait. Within a transaction, as in tests, it stays open."""
    if not connection.in_atomic_block:
        connection.close()
