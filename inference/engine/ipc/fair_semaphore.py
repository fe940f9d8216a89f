"""A semaphore that users acquire in turn, so that one user's many requests do not delay another user's few."""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from math import ceil

_NEWEST_WEIGHT = 0.1  # of the moving average


class FairSemaphore:
    """A semaphore of one event loop. Interactive waiters precede batch waiters; within each kind, users take turns.

    per_user: how often one user may hold it at once. With fewer than `count`, another user's interactive call need not
    wait for the end of any of them.
    """

    def __init__(self, count: int, *, per_user: int | None = None) -> None:
        self._count = self._free = count
        self._per_user = per_user or count
        self._held = Counter[str]()  # by user
        self._queues: dict[tuple[bool, str], deque[asyncio.Future[None]]] = {}  # in order of the users' turns
        self._mean_seconds = 0.0

    @contextlib.asynccontextmanager
    async def acquire(self, *, user: str, batch: bool) -> AsyncIterator[None]:
        """Wait for the semaphore, and hold it until the block ends."""
        if self._may_hold((batch, user)):
            self._take(user)
        else:
            await self._wait((batch, user))
        started_at = time.monotonic()
        try:
            yield
            seconds = time.monotonic() - started_at
            self._mean_seconds += (seconds - self._mean_seconds) * (_NEWEST_WEIGHT if self._mean_seconds else 1)
        finally:
            self._release(user)

    def estimate_wait(self, waiting: int) -> int:
        """Return the seconds until so many waiters have finished, 1 to 120, from recent durations."""
        return min(max(ceil(waiting * self._mean_seconds / self._count), 1), 120)

    def _may_hold(self, key: tuple[bool, str]) -> bool:
        batch, user = key
        is_preceded = batch and any(not waits_as_batch for waits_as_batch, _ in self._queues)
        return self._free > 0 and self._held[user] < self._per_user and not is_preceded

    def _take(self, user: str) -> None:
        self._free -= 1
        self._held[user] += 1

    async def _wait(self, key: tuple[bool, str]) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # acquired at the same moment
                self._release(key[1])
            raise

    def _release(self, user: str) -> None:
        self._free += 1
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
        while key := self._next_key():
            queue = self._queues.pop(key)
            waiter = queue.popleft()
            if queue:
                self._queues[key] = queue  # behind the other users
            if not waiter.done():
                self._take(key[1])
                waiter.set_result(None)

    def _next_key(self) -> tuple[bool, str] | None:
        keys = (key for key in self._queues if self._may_hold(key))
        return min(keys, key=lambda key: key[0], default=None)  # the first of equals
