"""Turns of the clients at the threads of this process, so that one client's many requests delay nobody else's few.

Python runs one thread at a time: a request of 20 ms beside ten others of one client would take 200. Beside others a
client has hardly more than one call at once, and a share of a processor, measured in what its threads computed.
While calls of some compute for long, whoever has just computed much waits for them. Clients of one address have few
calls at once beside those of others.
"""

import asyncio
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from shared.api.errors import ApiError

MAX_RUNNING = 16  # calls of one client at once
MAX_COMPUTING_AT_ADDRESS = 4  # calls of all clients of one address beside those of other addresses
ACTIVE_SECONDS = 1.0  # after a call, in which its client counts as active
# Before a client's second call beside its first while others are active. Before the third it is twice that.
PAUSE_SECONDS = 0.1
SHARE = 1 / 5  # of a processor that a client may use while others are active
BURST_SECONDS = 0.5  # of a processor that it may use before its calls wait for its share
MAX_DEBT_SECONDS = 1.0  # of a processor beyond it, that it waits for: five seconds
LONG_SECONDS = 0.03  # of a processor that a call has computed when it is a long one
MAX_LONG = 2  # such calls, beside which no client starts another while it computes one, or has just computed much
SPENT_SECONDS = 0.1  # of a processor above its share: much
SAMPLE_SECONDS = 0.5  # in which a call that computes nothing waits for something else
MAX_WAITING = 500  # calls of a client outside of requests' threads; further ones are refused

P = ParamSpec("P")
R = TypeVar("R")


class Call:
    """A call in a thread, which knows how long it has computed there. On macOS it knows when it ends.

    address: where it comes from. is_expected_long: its client has just computed much.
    """

    def __init__(self, *, address: str = "", is_expected_long: bool = False) -> None:
        self.address = address
        self.started_at = self._sampled_at = time.monotonic()
        self._is_expected_long = is_expected_long
        self._sampled_seconds = 0.0
        self._is_computing = True
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

    @property
    def is_computing(self) -> bool:
        """Whether it has computed lately, or has only begun. It may wait for another process instead."""
        now = time.monotonic()
        if now - self._sampled_at >= SAMPLE_SECONDS:
            computed = self.computed_seconds
            self._is_computing = computed > self._sampled_seconds
            self._sampled_at, self._sampled_seconds = now, computed
        return self._is_computing

    @property
    def is_long(self) -> bool:
        return (self._is_expected_long or self.computed_seconds > LONG_SECONDS) and self.is_computing


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that waits for its client's turn. is_over: its request has ended meanwhile."""

    start: Callable[[Call], object]
    is_over: Callable[[], bool]
    address: str


@dataclass(eq=False)
class _Client:
    """A client's calls that run or wait. paid_at: when its share makes up for what earlier calls have used."""

    running: list[Call] = field(default_factory=list)  # in the order of their starts
    waiting: deque[_Waiting] = field(default_factory=deque)
    started_at: float = 0.0  # the last call
    waits_since: float = 0.0  # the first of those that wait
    active_at: float = 0.0
    paid_at: float = 0.0
    timer: asyncio.TimerHandle | None = None

    @property
    def running_paid_at(self) -> float:
        """When the share makes up for what the running calls have computed so far, too."""
        paid_at = self.paid_at
        for call in self.running:
            paid_at = max(paid_at, call.started_at) + call.computed_seconds / SHARE
        return paid_at


class ClientTurns:
    """Order of the calls of all clients. A client alone waits for nobody, up to MAX_RUNNING calls.

    A call that runs for long holds up the client's next one for PAUSE_SECONDS. If it computes all the time, as an
    import does, or if others do, the next one starts five seconds later at the latest. Used on the event loop.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, _Client] = OrderedDict()  # the last active at the end
        self._running: set[Call] = set()
        self._addresses: OrderedDict[str, float] = OrderedDict()  # when each was active, the last at the end

    def enter(
        self,
        key: str,
        start: Callable[[Call], object],
        *,
        is_over: Callable[[], bool] = lambda: False,
        address: str = "",
    ) -> None:
        """Call `start` with a call, at once or when it is the client's turn. `leave` must follow when that ends.

        is_over: tells that the call need not start any more.
        address: where the call comes from, if that is known.
        """
        client = self._note_active(key, address)
        if not client.waiting:
            client.waits_since = client.active_at
        client.waiting.append(_Waiting(start, is_over, address))
        self._start_waiting(client)

    def leave(self, key: str, call: Call) -> None:
        client = self._note_active(key, call.address)
        self._running.discard(call)
        if call in client.running:
            client.running.remove(call)
        self._charge(client, call.computed_seconds, since=call.started_at)
        self._start_waiting(client)

    def charge(self, key: str, seconds: float) -> None:
        """Count what the event loop has computed for a request that took turns, but for its stream."""
        self._charge(self._note_active(key, ""), seconds, since=time.monotonic())

    def _charge(self, client: _Client, seconds: float, *, since: float) -> None:
        if self._is_beside_others(client):
            now = time.monotonic()
            # Where many compute, a call is slow because of them: its time makes up for nothing.
            paid_at = max(client.paid_at, now if self._are_many_long() else since) + seconds / SHARE
            client.paid_at = min(paid_at, now + (BURST_SECONDS + MAX_DEBT_SECONDS) / SHARE)

    async def run(self, key: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking function in a thread when it is the client's turn."""
        async with self.turn(key) as call:
            return await asyncio.to_thread(lambda: call.run(function, *args, **kwargs))

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[Call]:
        """Wait for the client's turn, which ends with the block. Raise ApiError 503 if too many wait.

        Nothing in the block may wait for another turn of the client.
        """
        if key in self._clients and len(self._clients[key].waiting) >= MAX_WAITING:
            raise ApiError(503, "Too many of your requests wait. Send fewer at once.", headers={"Retry-After": "1"})
        started: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self.enter(key, started.set_result, is_over=started.done)
        try:
            call = await started
        except BaseException:
            if not started.cancel() and not started.cancelled():
                self.leave(key, started.result())
            raise
        try:
            yield call
        finally:
            self.leave(key, call)

    def _note_active(self, key: str, address: str) -> _Client:
        client = self._clients.setdefault(key, _Client())
        client.active_at = now = time.monotonic()
        self._clients.move_to_end(key)
        while not (oldest := next(iter(self._clients.values()))).running and not oldest.waiting:
            if max(oldest.paid_at, oldest.active_at + ACTIVE_SECONDS) >= now:
                break
            self._clients.popitem(last=False)
        if address:
            self._addresses[address] = now
            self._addresses.move_to_end(address)
            while next(iter(self._addresses.values())) < now - ACTIVE_SECONDS:
                self._addresses.popitem(last=False)
        return client

    def _start_waiting(self, client: _Client) -> None:
        if client.timer:
            client.timer.cancel()
            client.timer = None
        while client.waiting and len(client.running) < MAX_RUNNING:
            if client.waiting[0].is_over():
                client.waiting.popleft()
                continue
            if (pause := self._pause(client)) > 0:
                client.timer = asyncio.get_running_loop().call_later(pause, self._start_waiting, client)
                return
            self._start(client, client.waiting.popleft())

    def _start(self, client: _Client, waiting: _Waiting) -> None:
        client.started_at = client.waits_since = time.monotonic()
        has_spent = client.paid_at - SPENT_SECONDS / SHARE > client.started_at
        call = Call(address=waiting.address, is_expected_long=has_spent)
        client.running.append(call)
        self._running.add(call)
        try:
            waiting.start(call)
        except BaseException:
            client.running.remove(call)
            self._running.discard(call)
            raise

    def _pause(self, client: _Client) -> float:
        """Return the seconds before the client's next call may start."""
        if not self._is_beside_others(client):
            return 0.0
        now = time.monotonic()
        paid_at = client.running_paid_at
        may_start = paid_at - BURST_SECONDS / SHARE
        if client.running:
            computed = sum(call.computed_seconds for call in client.running)
            may_start = max(may_start, client.started_at + computed / SHARE)
        may_start = min(may_start, client.started_at + MAX_DEBT_SECONDS / SHARE)
        if now < client.waits_since + MAX_DEBT_SECONDS / SHARE and self._must_wait_for_others(client, paid_at):
            may_start = max(may_start, now + LONG_SECONDS)  # their calls may have ended then
        may_start = max(may_start, client.started_at + PAUSE_SECONDS * len(client.running))
        return min(ACTIVE_SECONDS, may_start - now)

    def _must_wait_for_others(self, client: _Client, paid_at: float) -> bool:
        """Return whether many long calls of anybody, or many calls of its address, are in the client's way."""
        has_spent = paid_at - SPENT_SECONDS / SHARE > time.monotonic()
        if (has_spent or any(call.is_long for call in client.running)) and self._are_many_long():
            return True
        address = client.waiting[0].address
        if not address or not self._is_other_address_active(address):
            return False
        at_address = sum(call.address == address and call.is_computing for call in self._running)
        return at_address >= MAX_COMPUTING_AT_ADDRESS

    def _are_many_long(self) -> bool:
        return sum(call.is_long for call in self._running) >= MAX_LONG

    def _is_other_address_active(self, address: str) -> bool:
        other = next((other for other in reversed(self._addresses) if other != address), None)
        if other is not None and self._addresses[other] > time.monotonic() - ACTIVE_SECONDS:
            return True
        return any(call.address not in ("", address) and call.is_computing for call in self._running)

    def _is_beside_others(self, client: _Client) -> bool:
        other = next((other for other in reversed(self._clients.values()) if other is not client), None)
        if other is not None and (other.running or other.active_at > time.monotonic() - ACTIVE_SECONDS):
            return True
        return any(call.is_computing and call not in client.running for call in self._running)


client_turns = ClientTurns()
