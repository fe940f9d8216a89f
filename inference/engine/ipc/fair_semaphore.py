"""Places for those who work at once, taken in turn by users, so that who asks much waits for who asks little."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from math import ceil

_WEIGHT = 0.1  # of the newest in the mean


class Places:
    """For one event loop. Interactive work comes before a batch's; among each, users take turns."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._lines: dict[tuple[bool, str], deque[asyncio.Future[None]]] = {}  # whose turn is next is first
        self._mean_s = 0.0

    @contextlib.asynccontextmanager
    async def taken(self, *, user: str, batch: bool) -> AsyncIterator[None]:
        """Waits for a place, and has it until the block ends."""
        if self._free:
            self._free -= 1
        else:
            await self._wait((batch, user))
        began = time.monotonic()
        try:
            yield
            taken = time.monotonic() - began
            self._mean_s += (taken - self._mean_s) * (_WEIGHT if self._mean_s else 1)
        finally:
            self._give_on()

    def seconds_until_free(self, waiting: int) -> int:
        """When so many that are there now will have gone, from how long they took lately; 1 to 120."""
        return min(max(ceil(waiting * self._mean_s / self._count), 1), 120)

    async def _wait(self, whose: tuple[bool, str]) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(whose, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self._give_on()
            raise

    def _give_on(self) -> None:
        while self._lines:
            whose = min(self._lines, key=lambda one: one[0])  # of equal ones the first
            line = self._lines.pop(whose)
            turn = line.popleft()
            if line:
                self._lines[whose] = line  # behind the others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
