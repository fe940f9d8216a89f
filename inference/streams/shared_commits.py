"""Writes that share a commit. SQLite has one writer, so those of a moment run in one transaction, each in a savepoint.

Other databases commit side by side: there each write has a thread and a transaction of its own.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from django.db import Error as DatabaseError
from django.db import connection, transaction

from shared.serving.db_threads import run_in_db_thread

MAX_WRITES_PER_COMMIT = 64
IDLE_SECONDS = 1.0  # then the connection is closed

R = TypeVar("R")


async def commit(write: Callable[[], R]) -> R:
    """Call a function that writes, and return its result after the commit.

    Raise what it raises, and the database's errors; then nothing is written.
    """
    if connection.vendor != "sqlite":
        return await run_in_db_thread(partial(_in_transaction, write))
    result: R = await asyncio.wrap_future(_shared.submit(write))
    return result


class SharedCommits:
    """The thread that runs the writes of this process."""

    def __init__(self) -> None:
        self._writes: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, write: Callable[[], Any]) -> "Future[Any]":
        """Return the future result of a write."""
        future: Future[Any] = Future()
        self._writes.put((write, future))
        with self._starting:
            if self._thread is None or not self._thread.is_alive():  # a fork has no thread
                self._thread = threading.Thread(target=self._run, name="stream-commits", daemon=True)
                self._thread.start()
        return future

    def _run(self) -> None:
        while True:
            try:
                group = [self._writes.get(timeout=IDLE_SECONDS)]
            except queue.Empty:
                connection.close()
                group = [self._writes.get()]
            while len(group) < MAX_WRITES_PER_COMMIT and not self._writes.empty():
                group.append(self._writes.get())
            _run_group([(write, future) for write, future in group if future.set_running_or_notify_cancel()])


def _run_group(group: "list[tuple[Callable[[], Any], Future[Any]]]") -> None:
    """Run writes in one transaction, and give each future its result after the commit."""
    results: list[tuple[Any, Exception | None]] = []
    try:
        with transaction.atomic():
            results += [(write(), None) if len(group) == 1 else _run_write(write) for write, _ in group]
            if connection.needs_rollback:  # a full disk rolls back the whole transaction, not only a savepoint
                raise DatabaseError("the writes of this commit were rolled back")
    except Exception as error:  # of the only write, of the transaction or of its commit
        if isinstance(error, DatabaseError):
            connection.close()
        results = [(None, error)] * len(group)
    for (_, future), (result, failure) in zip(group, results, strict=True):
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)


def _run_write(write: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return _in_transaction(write), None
    except Exception as error:  # the caller of the write gets it
        return None, error


def _in_transaction(write: Callable[[], R]) -> R:
    with transaction.atomic():
        return write()


_shared = SharedCommits()
