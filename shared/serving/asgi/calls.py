"""Calls in the threads of requests, which know how long they have computed, and when the next one may start."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

LONG_SECONDS = 0.03  # of a processor that a call has computed when it is a long one
MAX_LONG = 2  # such calls, beside which no client starts another while it computes one, or has just computed much
MAX_COMPUTING_AT_ADDRESS = 4  # calls of all clients of one address beside those of other addresses
PAUSE_SECONDS = 0.1  # before the next call beside one of the same client or address, which may become long
ONE_LONG_SECONDS = 1.0  # before the next call of an address, or of a client alone, beside one that computes for long
MANY_LONG_SECONDS = 5.0  # before the next call of an address beside MAX_LONG of them
SAMPLE_SECONDS = 0.5  # in which a call that computes nothing waits for something else
MAX_BLOCKED_SECONDS = 10.0  # in which a call that computes nothing may wait for those of other clients

P = ParamSpec("P")
R = TypeVar("R")


class Call:
    """A call in a thread, which knows how long it has computed there. On macOS it knows when it ends.

    PostgreSQL computes for it as well: what a query that locks nothing takes above LONG_SECONDS counts.

    address: where it comes from. is_expected_long: its client has just computed much.
    """

    def __init__(self, *, address: str = "", is_expected_long: bool = False) -> None:
        self.address = address
        self.started_at = self._sampled_at = time.monotonic()
        self._is_expected_long = is_expected_long
        self._sampled_seconds = 0.0
        self._is_computing = True
        self._clock: int | None = None  # of the thread, while the call runs
        self._began_at = 0.0
        self._computed_seconds = 0.0
        # Seconds above LONG_SECONDS of each ended query, and when the present one began; another thread reads both.
        self._queries: tuple[float, float | None] = (0.0, None)

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, in this thread."""
        self._began_at = time.thread_time()
        if sys.platform != "darwin":
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        _thread.call = self
        try:
            return function(*args, **kwargs)
        finally:
            _thread.call = None
            self._computed_seconds = time.thread_time() - self._began_at
            self._clock = None

    def query(self, execute: Callable[..., R], *args: Any) -> R:
        """Execute a query that PostgreSQL computes."""
        self._queries = self._queries[0], time.monotonic()
        try:
            return execute(*args)
        finally:
            self._queries = self._long_query_seconds, None

    @property
    def computed_seconds(self) -> float:
        return self._thread_seconds + self._long_query_seconds

    @property
    def _long_query_seconds(self) -> float:
        seconds, began_at = self._queries
        return seconds if began_at is None else seconds + max(0.0, time.monotonic() - began_at - LONG_SECONDS)

    @property
    def _thread_seconds(self) -> float:
        if (clock := self._clock) is not None:
            try:
                return time.clock_gettime(clock) - self._began_at
            except OSError:  # the thread has ended meanwhile
                pass
        return self._computed_seconds

    @property
    def is_computing(self) -> bool:
        """Whether it has computed lately, or has only begun. It may wait for another process instead."""
        now = time.monotonic()
        if now - self._sampled_at >= SAMPLE_SECONDS:
            computed = self.computed_seconds
            self._is_computing = computed > self._sampled_seconds
            self._sampled_at, self._sampled_seconds = now, computed
        return self._is_computing

    @property
    def is_active(self) -> bool:
        """Whether its client counts as active. A call may wait for the database connection of another client's."""
        return self.is_computing or time.monotonic() < self.started_at + MAX_BLOCKED_SECONDS

    @property
    def is_long(self) -> bool:
        return (self._is_expected_long or self.computed_seconds > LONG_SECONDS) and self.is_computing


_thread = threading.local()  # its `call` is what runs


def count_queries() -> None:
    """Count the long queries of every connection to PostgreSQL that is opened from now on. SQLite computes itself."""
    connection_created.connect(_watch_connection, dispatch_uid="shared.serving.asgi.calls")


def _watch_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "postgresql" and _count_query not in connection.execute_wrappers:
        connection.execute_wrappers.append(_count_query)


def _count_query(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    call: Call | None = getattr(_thread, "call", None)
    if call is None or not _is_computed(sql):
        return execute(sql, params, many, context)
    return call.query(execute, sql, params, many, context)


def _is_computed(sql: str) -> bool:
    """Return whether this reads and waits for no lock: whoever waits for another client's is not to blame."""
    locks = " FOR " in sql[-100:].upper() or "pg_advisory" in sql[:100]
    return sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")) and not locks


def may_start_beside(calls: list[Call], *, free: int) -> float:
    """Return when another call may start beside these of the same client or address.

    free: so many start at once: 1 beside other addresses, more while others may only come. Whether the calls compute
    for long shows a moment after the last one's start.
    """
    calls = [call for call in calls if call.is_computing]
    if len(calls) < free:
        return 0.0
    started_at = max(call.started_at for call in calls)
    seconds = time.monotonic() - min(call.started_at for call in calls)
    is_busy = sum(call.computed_seconds for call in calls) >= max(seconds / 2, LONG_SECONDS)
    if free > 1:
        return started_at + (ONE_LONG_SECONDS if is_busy else LONG_SECONDS)
    long = sum(call.is_long for call in calls)
    if long >= MAX_LONG or len(calls) >= MAX_COMPUTING_AT_ADDRESS:
        return started_at + MANY_LONG_SECONDS
    return started_at + (ONE_LONG_SECONDS if long or is_busy else PAUSE_SECONDS)
