"""What SQLite's planner knows of the tables' contents: nothing, until somebody has it look. Without, it takes every
index for a good one, and may find one product by reading all that are published.
"""

from collections.abc import Callable

from django.db import connection

ANALYSIS_LIMIT = 1000  # rows of each index


def refresh_statistics() -> None:
    """Has the database look at its indexes, if it is SQLite; PostgreSQL does so by itself. Others' writes wait some
    hundredths of a second, however large the tables are. No values are kept, so that nobody's data are in there."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            analyze(cursor.execute)


def analyze(execute: Callable[[str], object]) -> None:
    """`execute` runs a statement."""
    execute(f"PRAGMA analysis_limit = {ANALYSIS_LIMIT}")
    execute("ANALYZE")
