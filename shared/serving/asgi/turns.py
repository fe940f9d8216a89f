"""Turns of the clients at the threads of this process, so that one client's many requests delay nobody else's few.

Python runs one thread at a time: a request of 20 ms beside ten others of one client would take 200. Beside others a
client has hardly more than one call at once, and a share of a processor, measured in what its threads computed.
"""

import asyncio
import sys
import threading
import time
import types
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

MAX_RUNNING = 16  # calls of one client at once
ACTIVE_SECONDS = 1.0  # after a call, in which its client counts as active
# Before a client's second call beside its first while others are active. Before the third it is twice that.
PAUSE_SECONDS = 0.1
SHARE = 1 / 5  # of a processor that a client may use while others are active
BURST_SECONDS = 0.5  # of a processor that it may use before its calls wait for its share

P = ParamSpec("P")
R = TypeVar("R")


class Call:
    """A call in a thread, which knows how long it has computed there. On macOS it knows when it ends."""

    def __init__(self) -> None:
        self._clock: int | None = None  # of the thread, while the call runs
        self._began_at = 0.0
        self._computed_seconds = 0.0

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, in this thread."""
        self._began_at = time.thread_time()
        if sys.platform != "darwin":
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            return function(*args, **kwargs)
        finally:
            self._computed_seconds = time.thread_time() - self._began_at
            self._clock = None

    @property
    def computed_seconds(self) -> float:
        if (clock := self._clock) is not None:
            try:
                return time.clock_gettime(clock) - self._began_at
            except OSError:  # the thread has ended meanwhile
                pass
        return self._computed_seconds


class LoopTime:
    """The seconds that a coroutine computes on the event loop, without those in which it waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @types.coroutine
    def run(self, coroutine: Coroutine[Any, Any, R], is_over: Callable[[], object]) -> Generator[Any, Any, R]:
        """Return what the coroutine returns. Steps that begin when `is_over` do not count."""
        step: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            counts, began = not is_over(), time.thread_time()
            try:
                waits_for = step()
            except StopIteration as end:
                return cast(R, end.value)
            finally:
                if counts:
                    self.seconds += time.thread_time() - began
            try:
                step = partial(coroutine.send, (yield waits_for))
            except BaseException as error:
                step = partial(coroutine.throw, error)


Start = Callable[[Call], object]


@dataclass(eq=False)
class _Client:
    """A client's calls that run or wait. paid_at: when its share makes up for what earlier calls have used."""

    running: set[Call] = field(default_factory=set)
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
        """Call `start` with a call, at once or when it is the client's turn. `leave` must follow when that ends."""
        client = self._note_active(key)
        client.waiting.append(start)
        self._start_waiting(client)

    def leave(self, key: str, call: Call) -> None:
        client = self._note_active(key)
        client.running.discard(call)
        client.paid_at = max(client.paid_at, time.monotonic()) + call.computed_seconds / SHARE
        self._start_waiting(client)

    async def wait(self, key: str) -> None:
        """Wait for the client's turn, and end it at once."""
        async with self.turn(key):
            pass

    async def run(self, key: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking function in a thread when it is the client's turn."""
        async with self.turn(key) as call:
            return await asyncio.to_thread(lambda: call.run(function, *args, **kwargs))

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[Call]:
        """Wait for the client's turn, which ends with the block."""
        loop = asyncio.get_running_loop()
        started: asyncio.Future[Call] = loop.create_future()

        def start(call: Call) -> None:
            if started.done():  # the request ended while it waited
                loop.call_soon(self.leave, key, call)
            else:
                started.set_result(call)

        self.enter(key, start)
        try:
            call = await started
        except asyncio.CancelledError:
            if not started.cancelled():
                self.leave(key, started.result())
            raise
        try:
            yield call
        finally:
            self.leave(key, call)

    def charge(self, key: str, seconds: float) -> None:
        """Count what a request of the client has computed outside of its calls."""
        client = self._note_active(key)
        client.paid_at = max(client.paid_at, time.monotonic()) + seconds / SHARE

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
        while client.waiting and len(client.running) < MAX_RUNNING:
            if (pause := self._pause(client)) > 0:
                client.timer = asyncio.get_running_loop().call_later(pause, self._start_waiting, client)
                return
            client.running.add(call := Call())
            client.started_at = time.monotonic()
            client.waiting.popleft()(call)

    def _pause(self, client: _Client) -> float:
        """Return the seconds before the client's next call may start."""
        now = time.monotonic()
        other = next((other for other in reversed(self._clients.values()) if other is not client), None)
        if other is None or not (other.running or other.active_at > now - ACTIVE_SECONDS):
            return 0.0
        beside = client.started_at + PAUSE_SECONDS * len(client.running) - now if client.running else 0.0
        used = max(0.0, client.paid_at - now) + sum(call.computed_seconds for call in client.running) / SHARE
        return max(beside, min(ACTIVE_SECONDS, used - BURST_SECONDS / SHARE))


client_turns = ClientTurns()
