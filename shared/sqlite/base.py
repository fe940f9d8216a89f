"""Database backend in which the threads of a process take turns to write.

SQLite grants the write lock to any connection that asks at the right moment, and its own busy handler retries ten times
a second. Under constant load one writer may starve past every timeout. Here the threads of a process queue, and only
the first of them retries, and often.

The thread that holds the write lock shares the interpreter with all others. With eight busy threads a transaction takes
ten times as long, so the others pause for a short transaction at their next query.
"""

import contextlib
import os
import random
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.db import OperationalError, connection
from django.db.backends.sqlite3 import base

RETRY_SECONDS = (0.001, 0.005)  # random in this range, so that processes do not retry in step
MAX_YIELD_SECONDS = 0.05  # other threads do not pause for longer transactions
MAX_WAIT_FOR_WRITER_SECONDS = 1.0  # then the first in the queue retries by itself


class WriterQueue:
    """First-in, first-out queue of threads that wait for the write lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    @contextlib.contextmanager
    def turn(self, limit_s: float) -> Iterator[None]:
        """Wait until the thread is the first in the queue, then run the block. Raise OperationalError after `limit_s`
        seconds.
        """
        my_turn = threading.Event()
        with self._lock:
            self._waiting.append(my_turn)
            self._waiting[0].set()
        try:
            if not my_turn.wait(limit_s):
                raise OperationalError("database is locked")
            yield
        finally:
            with self._lock:
                self._waiting.remove(my_turn)
                if self._waiting:
                    self._waiting[0].set()


class ActiveTransaction:
    """The transaction of this process that holds the write lock."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._is_over.set()
        self._by: weakref.ref[DatabaseWrapper] | None = None  # weak: its thread may end without closing it
        self._passes_until = 0.0
        self.others_wait = False  # of other processes

    def begin(self, by: "DatabaseWrapper") -> None:
        self._by, self._passes_until = weakref.ref(by), time.monotonic() + MAX_YIELD_SECONDS
        self._is_over.clear()

    def end(self, by: "DatabaseWrapper") -> None:
        if self._is_by(by):
            self._by = None
            self._is_over.set()

    def let_pass(self, by: "DatabaseWrapper") -> None:
        """Pause for a short transaction of another connection."""
        if self._is_over.is_set() or self._is_by(by):
            return
        if (left_s := self._passes_until - time.monotonic()) > 0:
            self._is_over.wait(left_s)

    def _is_by(self, database: "DatabaseWrapper") -> bool:
        return self._by is not None and self._by() is database

    def wait_until_over(self, limit_s: float) -> None:
        """Wait for the transaction to end, and a little longer if other processes wait for the lock."""
        self._is_over.wait(limit_s)
        if self.others_wait:
            time.sleep(min(RETRY_SECONDS[1], limit_s))


_writer_queues: dict[str, WriterQueue] = {}  # by the database's name
_active_transactions: dict[str, ActiveTransaction] = {}
for _state_of_parent_threads in (_writer_queues, _active_transactions):
    os.register_at_fork(after_in_child=_state_of_parent_threads.clear)


def _yield_to_writer(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]) -> Any:
    """Execute wrapper of all statements: pause for the transaction that holds the write lock."""
    database = context["connection"]
    database.writing.let_pass(database)
    return execute(sql, params, many, context)


class DatabaseWrapper(base.DatabaseWrapper):
    """Connection that waits for the write lock in the queue, for at most the option `timeout`, as in Django's own
    backend.
    """

    transaction_mode: str | None  # Django sets it, but its types do not say so
    waits = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers.append(_yield_to_writer)

    @property
    def writing(self) -> ActiveTransaction:
        name = str(self.settings_dict["NAME"])
        return _active_transactions.get(name) or _active_transactions.setdefault(name, ActiveTransaction())

    def commit(self) -> None:
        try:
            super().commit()
        finally:
            self.writing.end(self)

    def rollback(self) -> None:
        try:
            super().rollback()
        finally:
            self.writing.end(self)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.writing.end(self)

    def _start_transaction_under_autocommit(self) -> None:
        timeout_s = float(self.settings_dict["OPTIONS"].get("timeout", 5))
        limit_s = timeout_s if self.waits else 0.0
        give_up_at = time.monotonic() + limit_s
        queue, writing = _writer_queues.setdefault(str(self.settings_dict["NAME"]), WriterQueue()), self.writing
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            with queue.turn(limit_s):
                writing.wait_until_over(max(0.0, min(MAX_WAIT_FOR_WRITER_SECONDS, give_up_at - time.monotonic())))
                writing.others_wait = False
                while not self._begins() and time.monotonic() < give_up_at:
                    writing.others_wait = True
                    time.sleep(random.uniform(*RETRY_SECONDS))  # noqa: S311 - no secret
                if self.connection.in_transaction:
                    writing.begin(self)
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(timeout_s * 1000)}")
        if not self.connection.in_transaction:
            raise OperationalError("database is locked")

    def _begins(self) -> bool:
        """Begin a transaction; return False if the database is locked.

        No cursor may outlive a refusal. One in a traceback would wait for the garbage collector. If that ran in the
        writing thread, it would wait for this connection, which waits for that thread.
        """
        try:
            self.connection.execute(f"BEGIN {self.transaction_mode or ''}")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return False
            raise OperationalError(str(error)) from error
        return True


@contextlib.contextmanager
def fail_if_locked() -> Iterator[None]:
    """Make transactions that begin in the block raise OperationalError at once while another one writes.

    This changes SQLite only: other databases lock rows, which SKIP LOCKED skips.
    """
    database: Any = connection
    if database.vendor != "sqlite":
        yield
        return
    database.waits = False
    try:
        yield
    finally:
        database.waits = True
