"""Reading and writing in transactions that see one moment of the database, whatever others commit meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def read_snapshot() -> Iterator[None]:
    """Every query within sees the same moment. Within a transaction it sees what that one does."""
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
    """A transaction of one moment. In PostgreSQL it fails where somebody else changed the same rows since: nothing is
    done then, and it may be tried again. SQLite has one writer at a time."""
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield
