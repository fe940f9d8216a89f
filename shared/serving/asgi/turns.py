"""Turns of the clients at the threads of this process, so that one client's many requests delay nobody else's few.

Python runs one thread at a time: a request of 20 ms beside ten others of one client would take 200.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_RUNNING = 16  # calls of one client at once
ACTIVE_SECONDS = 1.0  # after a call, in which its client counts as active
PAUSE_SECONDS = (
    0.1  # before a client's second call beside its first while others are active; before the third, twice that
)

Start = Callable[[], object]


@dataclass
class _Calls:
    """The calls of a client that run or wait."""

    running: int = 0
    last_start: float = 0.0
    waiting: deque[Start] = field(default_factory=deque)
    timer: asyncio.TimerHandle | None = None


class ClientTurns:
    """Order of the calls of all clients. Alone, a client may have many at once; beside others, hardly more than one.

    A call that runs for long, as an import does, holds up the client's next one for PAUSE_SECONDS only. Used on the
    event loop.
    """

    def __init__(self) -> None:
        self._calls: dict[str, _Calls] = {}
        self._active: OrderedDict[str, float] = OrderedDict()  # when each client was active last, the oldest first

    def enter(self, client: str, start: Start) -> None:
        """Call `start` at once, or when it is the client's turn. `leave` must follow when what it has begun ends."""
        self._note_active(client)
        calls = self._calls.setdefault(client, _Calls())
        calls.waiting.append(start)
        self._start_waiting(client, calls)

    def leave(self, client: str) -> None:
        calls = self._calls[client]
        calls.running -= 1
        self._start_waiting(client, calls)
        if not calls.running and not calls.waiting:
            del self._calls[client]

    def _note_active(self, client: str) -> None:
        now = time.monotonic()
        self._active[client] = now
        self._active.move_to_end(client)
        while next(iter(self._active.values())) < now - ACTIVE_SECONDS:
            self._active.popitem(last=False)

    def _start_waiting(self, client: str, calls: _Calls) -> None:
        if calls.timer:
            calls.timer.cancel()
            calls.timer = None
        while calls.waiting and calls.running < MAX_RUNNING:
            if (pause := self._pause(calls)) > 0:
                calls.timer = asyncio.get_running_loop().call_later(pause, self._start_waiting, client, calls)
                return
            calls.running += 1
            calls.last_start = time.monotonic()
            calls.waiting.popleft()()

    def _pause(self, calls: _Calls) -> float:
        """Return the seconds before the client's next call may start."""
        if not calls.running or len(self._active) <= 1:
            return 0.0
        return calls.last_start + PAUSE_SECONDS * calls.running - time.monotonic()
