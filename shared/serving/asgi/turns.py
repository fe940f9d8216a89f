"""Turns of the clients at the threads of this process, so that one client's many requests delay nobody else's few.

Python runs one thread at a time: a request of 20 ms beside ten others of one client would take 200. Beside others a
client has hardly more than one call at once, and a share of a processor, measured in what its threads computed.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_RUNNING = 16  # calls of one client at once
ACTIVE_SECONDS = 1.0  # after a call, in which its client counts as active
# Before a client's second call beside its first while others are active. Before the third it is twice that.
PAUSE_SECONDS = 0.1
SHARE = 1 / 3  # of a processor that a client may use while others are active
BURST_SECONDS = 1.0  # of a processor that it may use before its calls wait for its share

Start = Callable[[], object]


@dataclass(eq=False)
class _Client:
    """A client's calls that run or wait. paid_at: when its share makes up for what it has used."""

    running: int = 0
    waiting: deque[Start] = field(default_factory=deque)
    started_at: float = 0.0  # the last call
    active_at: float = 0.0
    paid_at: float = 0.0
    timer: asyncio.TimerHandle | None = None


class ClientTurns:
    """Order of the calls of all clients. A client alone waits for nobody, up to MAX_RUNNING calls.

    A call that runs for long, as an import does, holds up the client's next one for PAUSE_SECONDS only. Used on the
    event loop.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, _Client] = OrderedDict()  # the last active at the end

    def enter(self, key: str, start: Start) -> None:
        """Call `start` at once, or when it is the client's turn. `leave` must follow when what it has begun ends."""
        client = self._note_active(key)
        client.waiting.append(start)
        self._start_waiting(client)

    def leave(self, key: str, computed_seconds: float) -> None:
        """End a call, whose thread has computed for so long."""
        client = self._note_active(key)
        client.running -= 1
        client.paid_at = max(client.paid_at, time.monotonic()) + computed_seconds / SHARE
        self._start_waiting(client)

    def _note_active(self, key: str) -> _Client:
        client = self._clients.setdefault(key, _Client())
        client.active_at = now = time.monotonic()
        self._clients.move_to_end(key)
        while not (oldest := next(iter(self._clients.values()))).running and not oldest.waiting:
            if max(oldest.paid_at, oldest.active_at + ACTIVE_SECONDS) >= now:
                break
            self._clients.popitem(last=False)
        return client

    def _start_waiting(self, client: _Client) -> None:
        if client.timer:
            client.timer.cancel()
            client.timer = None
        while client.waiting and client.running < MAX_RUNNING:
            if (pause := self._pause(client)) > 0:
                client.timer = asyncio.get_running_loop().call_later(pause, self._start_waiting, client)
                return
            client.running += 1
            client.started_at = time.monotonic()
            client.waiting.popleft()()

    def _pause(self, client: _Client) -> float:
        """Return the seconds before the client's next call may start."""
        now = time.monotonic()
        other = next((other for other in reversed(self._clients.values()) if other is not client), None)
        if other is None or not (other.running or other.active_at > now - ACTIVE_SECONDS):
            return 0.0
        beside = client.started_at + PAUSE_SECONDS * client.running - now if client.running else 0.0
        return max(beside, min(ACTIVE_SECONDS, client.paid_at - BURST_SECONDS / SHARE - now))
