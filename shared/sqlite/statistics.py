"""Statistics of SQLite's query planner, which has none until ANALYZE runs.

Without them it takes every index for a selective one, and may look up one product by reading all published ones.
"""

from collections.abc import Callable

from django.db import connection

ANALYSIS_LIMIT = 1000  # rows per index


def refresh_statistics() -> None:
    """Refresh the planner's statistics of a SQLite database; PostgreSQL does so by itself.

    Writers wait some hundredths of a second, whatever the size of the tables. SQLite stores counts only, no values.
    """
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            analyze(cursor.execute)


def analyze(execute: Callable[[str], object]) -> None:
    """Run ANALYZE with `execute`, which executes a statement."""
    execute(f"PRAGMA analysis_limit = {ANALYSIS_LIMIT}")
    execute("ANALYZE")
