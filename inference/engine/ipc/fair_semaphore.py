"""A semaphore that users acquire in turn, so that one user's many requests do not delay another user's few."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from math import ceil

_NEWEST_WEIGHT = 0.1  # of the moving average


class FairSemaphore:
    """A semaphore of one event loop. Interactive waiters precede batch waiters; within each kind, users take turns."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._queues: dict[tuple[bool, str], deque[asyncio.Future[None]]] = {}  # in order of the users' turns
        self._mean_seconds = 0.0

    @contextlib.asynccontextmanager
    async def acquire(self, *, user: str, batch: bool) -> AsyncIterator[None]:
        """Wait for the semaphore, and hold it until the block ends."""
        if self._free:
            self._free -= 1
        else:
            await self._wait((batch, user))
        started_at = time.monotonic()
        try:
            yield
            seconds = time.monotonic() - started_at
            self._mean_seconds += (seconds - self._mean_seconds) * (_NEWEST_WEIGHT if self._mean_seconds else 1)
        finally:
            self._release()

    def estimate_wait(self, waiting: int) -> int:
        """Return the seconds until so many waiters have finished, 1 to 120, from recent durations."""
        return min(max(ceil(waiting * self._mean_seconds / self._count), 1), 120)

    async def _wait(self, key: tuple[bool, str]) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # acquired at the same moment
                self._release()
            raise

    def _release(self) -> None:
        while self._queues:
            key = min(self._queues, key=lambda one: one[0])  # the first of equals
            queue = self._queues.pop(key)
            waiter = queue.popleft()
            if queue:
                self._queues[key] = queue  # behind the other users
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
