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
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.db import OperationalError, connection
from django.db.backends.sqlite3 import base

ASK_EVERY_S = (0.001, 0.005)  # at random in between, so that those who wait do not keep step
SHORT_S = 0.05  # a transaction that takes longer is not waited for


class Line:
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


class Passing:
    """The transaction of this process that writes just now, for which the other threads stand aside."""

    def __init__(self) -> None:
        self._nobody = threading.Event()
        self._nobody.set()
        self._by: DatabaseWrapper | None = None
        self._until = 0.0

    def begin(self, by: "DatabaseWrapper") -> None:
        self._by, self._until = by, time.monotonic() + SHORT_S
        self._nobody.clear()

    def end(self, by: "DatabaseWrapper") -> None:
        if self._by is by:
            self._by = None
            self._nobody.set()

    def let_pass(self, by: "DatabaseWrapper") -> None:
        """Returns at once to the transaction itself, and where there is none."""
        if not self._nobody.is_set() and self._by is not by and (left_s := self._until - time.monotonic()) > 0:
            self._nobody.wait(left_s)


_lines: dict[str, Line] = {}  # by the database's name
_passings: dict[str, Passing] = {}
for _of_parents_threads in (_lines, _passings):
    os.register_at_fork(after_in_child=_of_parents_threads.clear)


def _stand_aside(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]) -> Any:
    """Around every statement."""
    database = context["connection"]
    database.passing.let_pass(database)
    return execute(sql, params, many, context)


class DatabaseWrapper(base.DatabaseWrapper):
    """Waits for its turn no longer than the option `timeout` says, as Django's own."""

    transaction_mode: str | None  # Django sets it, but its types do not say so
    waits = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers.append(_stand_aside)

    @property
    def passing(self) -> Passing:
        return _passings.setdefault(str(self.settings_dict["NAME"]), Passing())

    def commit(self) -> None:
        self.passing.end(self)  # what is left waits for the disk, not for the interpreter
        super().commit()

    def rollback(self) -> None:
        self.passing.end(self)
        super().rollback()

    def close(self) -> None:
        self.passing.end(self)
        super().close()

    def _start_transaction_under_autocommit(self) -> None:
        timeout_s = float(self.settings_dict["OPTIONS"].get("timeout", 5))
        limit_s = timeout_s if self.waits else 0.0
        give_up_at = time.monotonic() + limit_s
        line = _lines.setdefault(str(self.settings_dict["NAME"]), Line())
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            with line.turn(limit_s):
                while not self._begins() and time.monotonic() < give_up_at:
                    time.sleep(random.uniform(*ASK_EVERY_S))  # noqa: S311 - no secret
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(timeout_s * 1000)}")
        if not self.connection.in_transaction:
            raise OperationalError("database is locked")
        self.passing.begin(self)

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
def without_waiting() -> Iterator[None]:
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
