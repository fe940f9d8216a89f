"""Size of a database with its indexes, after a vacuum."""

from collections.abc import Callable

from django.db import connection


def bytes_per_object(make: Callable[[int], None], count: int) -> float:
    """Return the bytes by which the database grows for each created object."""
    before = size()
    make(count)
    return (size() - before) / count


def size() -> int:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0])
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")
        return int(cursor.fetchone()[0])
