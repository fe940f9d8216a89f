"""Slots that the threads of many users take in turn, so that one user's many jobs do not delay another user's few."""

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Iterator


class SlotsFull(Exception):
    """The user has too many jobs waiting, or none of the slots became free in time."""


class FairSlots:
    """Semaphore for threads. Users who wait take turns, and each may have only so many jobs waiting.

    The last free slot is for users who hold none, so that they do not wait for the jobs of one who has many.
    """

    def __init__(self, count: int, *, max_waiting_per_user: int) -> None:
        self._free = count
        self._held = Counter[str]()
        self._max_waiting = max_waiting_per_user
        self._lock = threading.Lock()
        self._queues: dict[str, deque[threading.Event]] = {}  # in order of the users' turns

    @contextlib.contextmanager
    def acquire(self, user: str, *, timeout_s: float) -> Iterator[bool]:
        """Wait for a slot, and hold it until the block ends. Yield whether the user holds no other.

        Raise SlotsFull.
        """
        turn = self._enqueue(user)
        if turn and not turn.wait(timeout_s) and self._withdraw(user, turn):
            raise SlotsFull
        try:
            yield self._held[user] == 1
        finally:
            self._release(user)

    def _enqueue(self, user: str) -> threading.Event | None:
        """Take a free slot and return None, or return the event of the turn to wait for."""
        with self._lock:
            if self._may_take(user):
                self._take(user)
                return None
            queue = self._queues.setdefault(user, deque())
            if len(queue) >= self._max_waiting:
                raise SlotsFull
            turn = threading.Event()
            queue.append(turn)
            return turn

    def _may_take(self, user: str) -> bool:
        return self._free > (1 if self._held[user] else 0)

    def _take(self, user: str) -> None:
        self._free -= 1
        self._held[user] += 1

    def _withdraw(self, user: str, turn: threading.Event) -> bool:
        """Leave the queue. Return False if the turn has come, so that the slot is held."""
        with self._lock:
            if turn.is_set():
                return False
            queue = self._queues[user]
            queue.remove(turn)
            if not queue:
                del self._queues[user]
            return True

    def _release(self, user: str) -> None:
        with self._lock:
            self._free += 1
            self._held[user] -= 1
            if not self._held[user]:
                del self._held[user]
            # Two, if the user holds none now. A user may be an empty string.
            while (following := next(filter(self._may_take, self._queues), None)) is not None:
                self._take(following)
                queue = self._queues.pop(following)
                queue.popleft().set()
                if queue:
                    self._queues[following] = queue  # behind the other users
