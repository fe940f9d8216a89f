"""Helpers for the databases: query plans and limits."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


def plan_of(statement: str, *, can_sort: bool = True) -> str:
    """Return the query plan of these rows, with sequential scans disabled, and sorts where an index has the order."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"SET LOCAL enable_sort = {'on' if can_sort else 'off'}")
        cursor.execute(f"{'EXPLAIN' if connection.vendor == 'postgresql' else 'EXPLAIN QUERY PLAN'} {statement}")
        return str(cursor.fetchall())


@contextmanager
def at_most_values(number: int) -> Iterator[None]:
    """Lower SQLite's limit of 250,000 values per statement during the block."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    usual = connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, number)
    try:
        yield
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, usual)
