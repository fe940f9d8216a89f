"""How transactions of many threads go on beside each other.

SQLite gives the right to write to whoever asks at the right moment, and who waits in its own way asks ten times a
second: of many who write all the time one may wait past every limit. Here the threads of a process line up, and the
first of them asks often.

Who has the right to write shares the interpreter with all other threads of the process, who are at it again at each
call of the database: with eight of them everybody waits ten times as long. Here they let a short transaction pass.
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

RETRY_SECONDS = (0.001, 0.005)  # at random in between, so that those who wait do not keep step
MAX_YIELD_SECONDS = 0.05  # for a transaction that takes longer nobody stands aside
MAX_WAIT_FOR_WRITER_SECONDS = 1.0  # who is first in line asks by himself after so long


class WriterQueue:
    """Threads, who come to their turn in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    @contextlib.contextmanager
    def turn(self, limit_s: float) -> Iterator[None]:
        """What is inside is the only one inside. OperationalError after so many seconds of waiting."""
        mine = threading.Event()
        with self._lock:
            self._waiting.append(mine)
            self._waiting[0].set()
        try:
            if not mine.wait(limit_s):
                raise OperationalError("database is locked")
            yield
        finally:
            with self._lock:
                self._waiting.remove(mine)
                if self._waiting:
                    self._waiting[0].set()


class ActiveTransaction:
    """The transaction of this process that has the right to write just now."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._is_over.set()
        self._by: weakref.ref[DatabaseWrapper] | None = None  # whose thread may end without a word
        self._passes_until = 0.0
        self.others_wait = False  # other processes, too

    def begin(self, by: "DatabaseWrapper") -> None:
        self._by, self._passes_until = weakref.ref(by), time.monotonic() + MAX_YIELD_SECONDS
        self._is_over.clear()

    def end(self, by: "DatabaseWrapper") -> None:
        if self._is_by(by):
            self._by = None
            self._is_over.set()

    def let_pass(self, by: "DatabaseWrapper") -> None:
        """Waits for a short transaction; its own statements do not."""
        if self._is_over.is_set() or self._is_by(by):
            return
        if (left_s := self._passes_until - time.monotonic()) > 0:
            self._is_over.wait(left_s)

    def _is_by(self, database: "DatabaseWrapper") -> bool:
        return self._by is not None and self._by() is database

    def wait_until_over(self, limit_s: float) -> None:
        """And a little longer, where other processes wait: it is their turn."""
        self._is_over.wait(limit_s)
        if self.others_wait:
            time.sleep(min(RETRY_SECONDS[1], limit_s))


_writer_queues: dict[str, WriterQueue] = {}  # by the database's name
_active_transactions: dict[str, ActiveTransaction] = {}
for _of_parents_threads in (_writer_queues, _active_transactions):
    os.register_at_fork(after_in_child=_of_parents_threads.clear)


def _yield_to_writer(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]) -> Any:
    """Around every statement."""
    database = context["connection"]
    database.writing.let_pass(database)
    return execute(sql, params, many, context)


class DatabaseWrapper(base.DatabaseWrapper):
    """Waits for its turn no longer than the option `timeout` says, as Django's own."""

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
        line, writing = _writer_queues.setdefault(str(self.settings_dict["NAME"]), WriterQueue()), self.writing
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            with line.turn(limit_s):
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
        """No cursor outlives a refusal. One in a traceback would wait for the garbage collector, and if that ran in the
        thread that writes, it would wait for this connection, which waits for that thread."""
        try:
            self.connection.execute(f"BEGIN {self.transaction_mode or ''}")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                return False
            raise OperationalError(str(error)) from error
        return True


@contextlib.contextmanager
def fail_if_locked() -> Iterator[None]:
    """A transaction that begins within begins at once, or raises OperationalError while somebody else writes. Of
    another database than SQLite nothing is changed: there rows are locked, which SKIP LOCKED passes over."""
    database: Any = connection
    if database.vendor != "sqlite":
        yield
        return
    database.waits = False
    try:
        yield
    finally:
        database.waits = True
