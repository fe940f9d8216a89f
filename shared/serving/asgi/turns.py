"""Turns of the clients at the threads of this process, so that one client's many requests delay nobody else's few.

Python runs one thread at a time: a request of 20 ms beside ten others of one client would take 200. Beside others a
client has hardly more than one call at once, and a share of a processor, measured in what its threads computed.
While calls of some compute for long, whoever has just computed much waits for them. Beside other addresses, the clients
of one address take turns as well, so that many accounts get somebody hardly more than one.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

from shared.api.errors import ApiError
from shared.serving.asgi.calls import (
    LONG_SECONDS,
    MAX_COMPUTING_AT_ADDRESS,
    MAX_LONG,
    PAUSE_SECONDS,
    Call,
    may_start_beside,
)

MAX_RUNNING = 16  # calls of one client at once
ADDRESS_SHARE = 2 / 5  # of a processor for the long calls of one address, while other addresses are active
HEAVY_SECONDS = 60.0  # after a call that computed more than SPENT_SECONDS, in which its client's next ones are few
ACTIVE_SECONDS = 1.0  # after a call, in which its client counts as active
SHARE = 1 / 5  # of a processor that a client may use while others are active
BURST_SECONDS = 0.5  # of a processor that it may use before its calls wait for its share
MAX_DEBT_SECONDS = 1.0  # of a processor beyond it, that it waits for: five seconds
LOOP_FACTOR = 2.5  # what a process computes for a request outside of its calls is so many times what is measured
SPENT_SECONDS = 0.1  # of a processor above its share: much
MAX_WAITING = 500  # calls of a client outside of requests' threads; further ones are refused

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that waits for its client's turn. is_over: its request has ended meanwhile."""

    start: Callable[[Call], object]
    is_over: Callable[[], bool]
    address: str


@dataclass(eq=False)
class _Client:
    """A client's calls that run or wait.

    paid_at: when its share makes up for what earlier calls have used. heavy_until: HEAVY_SECONDS after its last call
    that computed much.
    """

    running: list[Call] = field(default_factory=list)  # in the order of their starts
    waiting: deque[_Waiting] = field(default_factory=deque)
    started_at: float = 0.0  # the last call
    waits_since: float = 0.0  # the first of those that wait
    active_at: float = 0.0
    paid_at: float = 0.0
    heavy_until: float = 0.0
    timer: asyncio.TimerHandle | None = None
    queue: "_Address | None" = None  # where it waits for its address's turn

    @property
    def running_paid_at(self) -> float:
        """When the share makes up for what the running calls have computed so far, too."""
        paid_at = self.paid_at
        for call in self.running:
            paid_at = max(paid_at, call.started_at) + call.computed_seconds / SHARE
        return paid_at


@dataclass(eq=False, slots=True)
class _Address:
    """An address whose clients are active or wait.

    paid_at: when its share makes up for their long calls. heavy_until: as of a client.
    """

    active_at: float = 0.0
    paid_at: float = 0.0
    heavy_until: float = 0.0
    waiting: dict[_Client, None] = field(default_factory=dict)  # for the address's turn, first come, first served

    @property
    def forgotten_at(self) -> float:
        return inf if self.waiting else max(self.active_at + ACTIVE_SECONDS, self.paid_at, self.heavy_until)


class ClientTurns:
    """Order of the calls of all clients. A client alone has up to MAX_RUNNING calls, MAX_LONG that compute for long.

    A call that runs for long holds up the client's next one for PAUSE_SECONDS. If it computes all the time, as an
    import does, or if others do, the next one starts five seconds later at the latest, but for the turns of an address
    whose clients have computed much. Used on the event loop.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, _Client] = OrderedDict()  # the last active at the end
        self._running: set[Call] = set()
        self._addresses: OrderedDict[str, _Address] = OrderedDict()  # the last active at the end

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
        self._go_on(client)

    def leave(self, key: str, call: Call) -> None:
        client = self._note_active(key, call.address)
        self._running.discard(call)
        if call in client.running:
            client.running.remove(call)
        self._charge(client, call.computed_seconds, since=call.started_at)
        if call.computed_seconds > SPENT_SECONDS:
            client.heavy_until = time.monotonic() + HEAVY_SECONDS
            if call.address:
                self._charge_address(call.address, call.computed_seconds)
        self._go_on(client)
        if address := self._addresses.get(call.address):
            self._start_next(address)

    def charge(self, key: str, seconds: float) -> None:
        """Count what the event loop has computed for a request that took turns, but for its stream."""
        self._charge(self._note_active(key, ""), LOOP_FACTOR * seconds, since=time.monotonic())

    def _charge(self, client: _Client, seconds: float, *, since: float) -> None:
        if self._is_beside_others(client):
            now = time.monotonic()
            # Where many compute, a call is slow because of them: its time makes up for nothing.
            paid_at = max(client.paid_at, now if self._are_many_long() else since) + seconds / SHARE
            client.paid_at = min(paid_at, now + (BURST_SECONDS + MAX_DEBT_SECONDS) / SHARE)

    def _charge_address(self, name: str, seconds: float) -> None:
        now, address = time.monotonic(), self._addresses[name]
        address.heavy_until = now + HEAVY_SECONDS
        if self._is_other_address_active(name):
            paid_at = max(address.paid_at, now) + seconds / ADDRESS_SHARE
            address.paid_at = min(paid_at, now + (BURST_SECONDS + MAX_DEBT_SECONDS) / ADDRESS_SHARE)

    async def run(self, key: str, function: Callable[..., R], *args: Any, address: str = "") -> R:
        """Call a blocking function in a thread when it is the client's turn, and its address's.

        Cancelled while the thread computes, it ends when that does: the turn is not over before, nor what the caller
        holds meanwhile.
        """
        async with self.turn(key, address) as call:
            thread = asyncio.ensure_future(asyncio.to_thread(lambda: call.run(function, *args)))
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                await asyncio.wait([thread])
                raise

    @asynccontextmanager
    async def turn(self, key: str, address: str = "") -> AsyncIterator[Call]:
        """Wait for the client's turn, which ends with the block. Raise ApiError 503 if too many wait.

        Nothing in the block may wait for another turn of the client.
        """
        if key in self._clients and len(self._clients[key].waiting) >= MAX_WAITING:
            raise ApiError(503, "Too many of your requests wait. Send fewer at once.", headers={"Retry-After": "1"})
        started: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self.enter(key, started.set_result, is_over=started.done, address=address)
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
            if max(oldest.paid_at, oldest.heavy_until, oldest.active_at + ACTIVE_SECONDS) >= now:
                break
            self._clients.popitem(last=False)
        if address:
            self._note_address(address)
        return client

    def _note_address(self, name: str) -> _Address:
        address = self._addresses.setdefault(name, _Address())
        address.active_at = now = time.monotonic()
        self._addresses.move_to_end(name)
        while next(iter(self._addresses.values())).forgotten_at < now:
            self._addresses.popitem(last=False)
        return address

    def _go_on(self, client: _Client) -> None:
        queue = client.queue
        self._start_waiting(client)
        if queue:
            self._start_next(queue)

    def _start_next(self, address: _Address) -> None:
        """Start calls of the clients that wait for the turn of the address, in their order."""
        while first := next(iter(address.waiting), None):
            self._start_waiting(first)
            if first.queue is address:  # it waits on, perhaps behind others now
                return

    def _start_waiting(self, client: _Client) -> None:
        if client.timer:
            client.timer.cancel()
            client.timer = None
        while client.waiting and len(client.running) < MAX_RUNNING:
            if client.waiting[0].is_over():
                client.waiting.popleft()
                continue
            pause = self._pause(client)
            if pause <= 0:
                pause = self._address_pause(client, client.waiting[0].address)
            else:
                self._leave_queue(client)
            if pause > 0:
                client.timer = asyncio.get_running_loop().call_later(pause, self._go_on, client)
                return
            self._leave_queue(client)
            self._start(client, client.waiting.popleft())
        self._leave_queue(client)

    @staticmethod
    def _leave_queue(client: _Client) -> None:
        if client.queue:
            client.queue.waiting.pop(client, None)
            client.queue = None

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
        """Return the seconds before the client's next call may start, or its address's turn be asked for."""
        now = time.monotonic()
        if self._is_beside_others(client):
            may_start = self._may_start_beside_others(client)
        elif client.heavy_until > now:  # others may come while its calls compute
            may_start = may_start_beside(client.running, free=MAX_LONG)
        else:
            return 0.0
        return min(ACTIVE_SECONDS, may_start - now)

    def _may_start_beside_others(self, client: _Client) -> float:
        now = time.monotonic()
        paid_at = client.running_paid_at
        may_start = paid_at - BURST_SECONDS / SHARE
        if client.running:
            computed = sum(call.computed_seconds for call in client.running)
            may_start = max(may_start, client.started_at + computed / SHARE)
        may_start = min(may_start, client.started_at + MAX_DEBT_SECONDS / SHARE)
        has_spent = paid_at - SPENT_SECONDS / SHARE > now or any(call.is_long for call in client.running)
        if has_spent and self._are_many_long() and now < client.waits_since + MAX_DEBT_SECONDS / SHARE:
            may_start = max(may_start, now + LONG_SECONDS)  # their calls may have ended then
        may_start = max(may_start, client.started_at + PAUSE_SECONDS * len(client.running))  # the third twice that
        if client.heavy_until > now:
            may_start = max(may_start, self._share_pays_at(client.waiting[0].address))
        return may_start

    def _share_pays_at(self, name: str) -> float:
        """Return when the share of the address has made up for its long calls, but for half a second of a processor."""
        if name not in self._addresses or not self._is_other_address_active(name):
            return 0.0
        return self._addresses[name].paid_at - BURST_SECONDS / ADDRESS_SHARE

    def _address_pause(self, client: _Client, name: str) -> float:
        """Return the seconds before the client asks again for the turn of its address, for which it waits in line."""
        if not name:
            return 0.0
        address = self._note_address(name)
        pause = ACTIVE_SECONDS  # whoever is before it starts it
        if next(iter(address.waiting), client) is client:
            now = time.monotonic()
            at_address = [call for call in self._running if call.address == name]
            is_heavy = address.heavy_until > now or any(call.is_long for call in at_address)
            is_beside_others = self._is_other_address_active(name)
            if not is_heavy and not is_beside_others:
                return 0.0
            free = 1 if is_heavy and is_beside_others else MAX_COMPUTING_AT_ADDRESS
            pause = min(ACTIVE_SECONDS, may_start_beside(at_address, free=free) - now)
        if pause > 0:
            if client.queue is not address:
                self._leave_queue(client)
            address.waiting[client] = None
            client.queue = address
        return pause

    def _are_many_long(self) -> bool:
        return sum(call.is_long for call in self._running) >= MAX_LONG

    def _is_other_address_active(self, address: str) -> bool:
        other = next((other for other in reversed(self._addresses) if other != address), None)
        if other is not None and self._addresses[other].active_at > time.monotonic() - ACTIVE_SECONDS:
            return True
        return any(call.address not in ("", address) and call.is_active for call in self._running)

    def _is_beside_others(self, client: _Client) -> bool:
        other = next((other for other in reversed(self._clients.values()) if other is not client), None)
        if other is not None and (other.running or other.active_at > time.monotonic() - ACTIVE_SECONDS):
            return True
        return any(call.is_active and call not in client.running for call in self._running)


client_turns = ClientTurns()
