"""Time limit and concurrency limit of list queries.

Not every search or ordering has an index, and without one a query over millions of rows takes seconds. The database
itself ends a query that takes too long, and a limit of concurrent searches leaves connections for other requests. One
client's many searches leave one of them to others.
"""

import math
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

from django.db import OperationalError, connection, transaction
from rest_framework.request import Request

from shared.api.errors import ApiError, ValidationFailed
from shared.api.limits.throttling import throttle_key
from shared.fair_slots import FairSlots, SlotsFull

MAX_QUERY_SECONDS = 3.0
MAX_CONCURRENT_SEARCHES = 4  # per process, whose pool has ten connections
MAX_WAITING_SEARCHES = 100  # of a client
MAX_UNLIMITED_OFFSET = 10_000  # the rows before a page are read as well
PROGRESS_INSTRUCTIONS = 20_000  # SQLite instructions between checks: some hundred checks a second
_MAX_WAIT_SECONDS = 0.5  # maximum wait for another search to end

_give_up_at = ContextVar("give_up_at", default=math.inf)  # of the innermost block, on SQLite
_slots = FairSlots(MAX_CONCURRENT_SEARCHES, max_waiting_per_user=MAX_WAITING_SEARCHES)


@contextmanager
def limit_list_query(request: Request, *, first_row: int, indexed: Collection[str] = ()) -> Iterator[None]:
    """Limit the queries of a list whose rows begin at `first_row`. Lists without a search are not limited.

    indexed: parameters of this request that have an index, and so no limit.

    Raise ValidationFailed if a query takes too long, and ApiError 503 if too many searches run at once.
    """
    parameters = [name for name in ("search", "orderBy") if request.query_params.get(name) and name not in indexed]
    if first_row > MAX_UNLIMITED_OFFSET:
        parameters.append("page")
    if not parameters:
        yield
        return
    try:
        with _slots.acquire(throttle_key(request), timeout_s=_MAX_WAIT_SECONDS), limit_query_time(MAX_QUERY_SECONDS):
            yield
    except SlotsFull:
        message = "Too many searches are running. Try again in a moment."
        raise ApiError(503, message, headers={"Retry-After": "2"}) from None
    except QueryTimeout:
        message = f"This query takes more than {MAX_QUERY_SECONDS:g} seconds. Use longer words, = or another filter."
        raise ValidationFailed({parameters[0]: [message]}) from None


class QueryTimeout(Exception):
    """The database has ended a query that took too long."""


@contextmanager
def limit_query_time(seconds: float) -> Iterator[None]:
    """Raise QueryTimeout if the queries in the block take longer: all together on SQLite, any one on PostgreSQL."""
    limit = _on_postgresql if connection.vendor == "postgresql" else _on_sqlite
    with limit(seconds):
        yield


@contextmanager
def pause_query_time() -> Iterator[None]:
    """Let the queries in the block take their time, which does not count for the blocks of `limit_query_time` around.

    PostgreSQL goes on to end a query that takes too long by itself.
    """
    outer = _give_up_at.get()
    if connection.vendor == "postgresql" or outer == math.inf:
        yield
        return
    database = cast(sqlite3.Connection, connection.connection)
    database.set_progress_handler(None, PROGRESS_INSTRUCTIONS)
    began = time.monotonic()
    try:
        yield
    finally:
        give_up_at = outer + time.monotonic() - began
        _give_up_at.set(give_up_at)
        database.set_progress_handler(lambda: time.monotonic() > give_up_at, PROGRESS_INSTRUCTIONS)


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
    database, outer = cast(sqlite3.Connection, connection.connection), _give_up_at.get()
    give_up_at = min(time.monotonic() + seconds, outer)
    database.set_progress_handler(lambda: time.monotonic() > give_up_at, PROGRESS_INSTRUCTIONS)
    token = _give_up_at.set(give_up_at)
    try:
        yield
    except OperationalError as error:
        if "interrupted" in str(error):
            raise QueryTimeout from error
        raise
    finally:
        _give_up_at.reset(token)
        is_limited = outer < math.inf  # by a block around this one
        database.set_progress_handler((lambda: time.monotonic() > outer) if is_limited else None, PROGRESS_INSTRUCTIONS)
