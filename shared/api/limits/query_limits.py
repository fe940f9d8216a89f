"""How long a list may be read, and how many are at once.

What clients may search for and order by has not always an index, and of millions of rows one without costs seconds. The
database itself ends a read that takes longer, and those who ask for such reads leave connections to everybody else.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from django.db import OperationalError, connection, transaction
from rest_framework.request import Request

from shared.api.errors import ApiError, ValidationFailed

MAX_QUERY_SECONDS = 3.0
MAX_CONCURRENT_SEARCHES = 4  # in one process, whose pool has ten connections
MAX_UNLIMITED_OFFSET = 10_000  # what comes before a page is read as well
PROGRESS_INSTRUCTIONS = 20_000  # of SQLite's instructions: some hundred times a second
_MAX_WAIT_SECONDS = 0.5  # for one of the others to end

_slots = threading.BoundedSemaphore(MAX_CONCURRENT_SEARCHES)


@contextmanager
def limit_list_query(request: Request, *, first_row: int) -> Iterator[None]:
    """Around the queries of a list whose rows begin at `first_row`. What needs no search is not limited. Raises
    ValidationFailed where a query takes too long, and a 503 where too many search at once."""
    asked = [name for name in ("search", "orderBy") if request.query_params.get(name)]
    if first_row > MAX_UNLIMITED_OFFSET:
        asked.append("page")
    if not asked:
        yield
        return
    if not _slots.acquire(timeout=_MAX_WAIT_SECONDS):
        raise ApiError(503, "Too many are searching just now. Try again in a moment.", headers={"Retry-After": "2"})
    try:
        with limit_query_time(MAX_QUERY_SECONDS):
            yield
    except QueryTimeout:
        words = f"This takes more than {MAX_QUERY_SECONDS:g} seconds. Ask for less: longer words, =, another filter."
        raise ValidationFailed({asked[0]: [words]}) from None
    finally:
        _slots.release()


class QueryTimeout(Exception):
    """The database has ended a query."""


@contextmanager
def limit_query_time(seconds: float) -> Iterator[None]:
    """Raises QueryTimeout where the queries within take longer: all of them on SQLite, one of them on PostgreSQL."""
    limit = _on_postgresql if connection.vendor == "postgresql" else _on_sqlite
    with limit(seconds):
        yield


@contextmanager
def _on_postgresql(seconds: float) -> Iterator[None]:
    try:
        with transaction.atomic(), connection.cursor() as cursor:  # the setting ends with the transaction
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, round(seconds * 1000)))])
            yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == "57014":  # query_canceled
            raise QueryTimeout from error
        raise


@contextmanager
def _on_sqlite(seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    database, give_up_at = cast(sqlite3.Connection, connection.connection), time.monotonic() + seconds
    database.set_progress_handler(lambda: time.monotonic() > give_up_at, PROGRESS_INSTRUCTIONS)
    try:
        yield
    except OperationalError as error:
        if "interrupted" in str(error):
            raise QueryTimeout from error
        raise
    finally:
        database.set_progress_handler(None, 0)
