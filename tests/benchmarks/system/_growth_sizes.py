"""How large a database is, with its indexes, once it has been cleaned up."""

from collections.abc import Callable

from django.db import connection


def a_piece(make: Callable[[int], None], count: int) -> float:
    """Bytes that the database grows by for each of so many."""
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
