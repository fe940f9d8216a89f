"""Turns of the clients at the threads of a process: row N11's rule for every request."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from shared.api.errors import ApiError
from shared.serving.asgi import calls, threads, turns
from shared.serving.asgi.calls import Call
from shared.serving.asgi.refusals import CLIENT_KEY
from shared.serving.asgi.threads import ThreadReuseMiddleware
from shared.serving.asgi.turns import MAX_RUNNING, ClientTurns, client_turns
from tests.shared.serving.asgi.waiting import until

pytestmark = pytest.mark.no_database

FEW, MANY = "user:1", "user:2"


class Server:
    """Application whose requests block until they are let go on, and that knows whose run."""

    def __init__(self) -> None:
        self.middleware = ThreadReuseMiddleware(self._respond)
        self.may_end = threading.Event()
        self.running: dict[str | None, int] = {}
        self._lock = threading.Lock()

    async def _respond(self, scope: Any, receive: Any, send: Any) -> None:
        """Run for as long as the scope says: until `may_end`, asleep or, for negative seconds, computing."""
        await sync_to_async(self._view)(scope.get(CLIENT_KEY), scope["seconds"])
        compute(scope["loop_seconds"])

    def _view(self, client: str | None, seconds: float | None) -> None:
        with self._counted(client):
            if seconds is None:
                assert self.may_end.wait(30)
            elif seconds < 0:
                compute(-seconds)
            else:
                time.sleep(seconds)

    @contextmanager
    def _counted(self, client: str | None) -> Iterator[None]:
        with self._lock:
            self.running[client] = self.running.get(client, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self.running[client] -= 1

    def request(
        self, client: str | None, *, seconds: float | None = None, loop_seconds: float = 0.0
    ) -> asyncio.Future[None]:
        scope = {"type": "http", "seconds": seconds, "loop_seconds": loop_seconds}
        if client:
            scope[CLIENT_KEY] = client
        return asyncio.ensure_future(self.middleware(scope, _receive, _send))

    async def block_beside_others(self) -> asyncio.Future[bool]:
        """Begin a call of MANY before Django, until `may_end`, beside a request of FEW."""
        blocking = asyncio.ensure_future(client_turns.run(MANY, self.may_end.wait, 30))
        await self.request(FEW, seconds=0)
        return blocking


def compute(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() < began + seconds:
        pass


async def _receive() -> Any:
    return await asyncio.Future()


async def _send(event: Any) -> None:
    raise AssertionError


def serve(scenario: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        server = Server()
        try:
            await scenario(server)
        finally:
            server.may_end.set()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.fixture
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever was active be so during the test, so that a busy machine changes nothing."""
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 60.0)


def test_a_client_alone_has_many_requests_at_once() -> None:
    async def scenario(server: Server) -> None:
        requests = [server.request(MANY) for _ in range(MAX_RUNNING + 5)]
        await until(lambda: server.running.get(MANY) == MAX_RUNNING)
        server.may_end.set()
        await asyncio.gather(*requests)

    serve(scenario)


@pytest.mark.usefixtures("long_pause")
def test_beside_another_client_many_short_requests_run_one_after_the_other() -> None:
    async def scenario(server: Server) -> None:
        await server.request(FEW, seconds=0)
        requests = [server.request(MANY, seconds=0.02) for _ in range(20)]
        most = 0
        while not all(request.done() for request in requests):
            most = max(most, server.running.get(MANY, 0))
            await server.request(FEW, seconds=0)  # it never waits for one of them
            await asyncio.sleep(0.002)
        assert most == 1

    serve(scenario)


def test_a_long_request_holds_up_its_clients_next_one_for_a_moment_only() -> None:
    async def scenario(server: Server) -> None:
        server.request(MANY)
        await server.request(FEW, seconds=0)
        await server.request(MANY, seconds=0)
        assert server.running[MANY] == 1

    serve(scenario)


@pytest.mark.usefixtures("long_pause")
def test_requests_that_end_while_they_wait_take_no_turn() -> None:
    async def scenario(server: Server) -> None:
        long = server.request(MANY)
        await server.request(FEW, seconds=0)
        waiting = [server.request(MANY) for _ in range(10)]
        await asyncio.sleep(0)
        for request in waiting:
            request.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        server.may_end.set()
        await long
        await server.request(MANY, seconds=0)
        await until(lambda: server.running[MANY] == 0)

    serve(scenario)


@pytest.mark.usefixtures("long_pause")
@pytest.mark.parametrize("computing", [{"seconds": -0.1}, {"seconds": 0, "loop_seconds": 0.1}])
def test_beside_others_a_client_that_has_computed_for_its_share_waits(
    monkeypatch: pytest.MonkeyPatch, computing: dict[str, float]
) -> None:
    monkeypatch.setattr(turns, "SHARE", 0.001)
    monkeypatch.setattr(turns, "BURST_SECONDS", 0.05)

    async def scenario(server: Server) -> None:
        await server.request(FEW, seconds=0)
        await server.request(MANY, **computing)
        waiting = server.request(MANY, seconds=0)
        for _ in range(5):
            await server.request(FEW, seconds=0)
        assert not waiting.done()
        monkeypatch.setattr(turns, "ACTIVE_SECONDS", 0.0)  # nobody else is active any more
        await server.request(MANY, seconds=0)
        await waiting

    serve(scenario)


def test_what_a_client_has_computed_alone_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BURST_SECONDS", 0.05)
    monkeypatch.setattr(turns, "SHARE", 0.001)

    async def scenario(server: Server) -> None:
        await server.request(MANY, seconds=-0.2)
        await server.request(FEW, seconds=0)
        await server.request(MANY, seconds=0)

    serve(scenario)


def test_a_request_that_computes_for_long_holds_up_its_clients_next_one_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "BURST_SECONDS", 0.05)
    monkeypatch.setattr(turns, "MAX_DEBT_SECONDS", 0.04)  # a fifth of a second

    async def scenario(server: Server) -> None:
        await server.request(FEW, seconds=0)
        long = server.request(MANY, seconds=-3.0)
        while not server.running.get(MANY):
            await server.request(FEW, seconds=0)
        waiting = server.request(MANY, seconds=0)
        while not waiting.done():
            await server.request(FEW, seconds=0)
        assert not long.done()
        await long

    serve(scenario)


@pytest.mark.usefixtures("long_pause")
def test_no_debt_is_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BURST_SECONDS", 0.05)
    monkeypatch.setattr(turns, "SHARE", 0.001)
    monkeypatch.setattr(turns, "MAX_DEBT_SECONDS", 0.0001)

    async def scenario(server: Server) -> None:
        await server.request(FEW, seconds=0)
        await server.request(MANY, seconds=-0.2)
        await server.request(MANY, seconds=0)

    serve(scenario)


async def test_too_many_waiting_calls_of_a_client_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 60.0)
    monkeypatch.setattr(turns, "MAX_WAITING", 2)
    for client in (FEW, MANY):  # each has a call that runs
        client_turns.enter(client, lambda call: None)
    waiting = [asyncio.ensure_future(client_turns.run(MANY, time.sleep, 0)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await client_turns.run(MANY, time.sleep, 0)
    assert (refused.value.problem.status, refused.value.problem.headers) == (503, {"Retry-After": "1"})
    for call in waiting:
        call.cancel()


def test_what_a_running_request_has_computed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHARE", 0.001)
    monkeypatch.setattr(turns, "BURST_SECONDS", 0.05)
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0.0)

    async def scenario(server: Server) -> None:
        await server.request(FEW, seconds=0)
        long = server.request(MANY, seconds=-0.5)
        await asyncio.sleep(0.2)
        waiting = server.request(MANY)
        most = 0
        while not long.done():
            await server.request(FEW, seconds=0)
            most = max(most, server.running[MANY])
        assert most == 1
        server.may_end.set()
        monkeypatch.setattr(turns, "ACTIVE_SECONDS", 0.0)
        await waiting

    serve(scenario)


async def test_a_client_that_has_just_computed_waits_for_the_long_calls_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it the calls of thirty clients ran at once, and nobody was answered for minutes."""
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    started: dict[str, list[Call]] = {name: [] for name in ("long 1", "long 2", "waits", "new")}
    client_turns.enter("waits", started["waits"].append)
    for name in ("long 1", "long 2"):
        client_turns.enter(name, started[name].append)
        started[name][0]._computed_seconds = 0.1
    started["waits"][0]._computed_seconds = 0.2
    client_turns.leave("waits", started["waits"][0])
    for name in ("waits", "new"):
        client_turns.enter(name, started[name].append)
    assert [len(started[name]) for name in ("waits", "new")] == [1, 1]
    client_turns.leave("long 1", started["long 1"][0])
    client_turns.enter("waits", started["waits"].append)
    assert len(started["waits"]) == 2, "one long call is not many"


async def test_a_call_that_computes_holds_up_its_clients_next_one_beside_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0.0)
    started: list[Call] = []
    client_turns.enter(FEW, lambda call: None)
    client_turns.enter(MANY, started.append)
    started[0]._computed_seconds = 0.2
    client_turns.enter(MANY, started.append)
    assert len(started) == 1
    client_turns.leave(MANY, started[0])
    assert len(started) == 2, "within the burst"


@pytest.mark.usefixtures("long_pause")
def test_what_a_request_computes_before_django_takes_a_turn_as_well() -> None:
    async def scenario(server: Server) -> None:
        blocking = await server.block_beside_others()
        waiting = [server.request(MANY, seconds=0), asyncio.ensure_future(client_turns.run(MANY, time.sleep, 0))]
        for _ in range(3):
            await server.request(FEW, seconds=0)
        assert [request.done() for request in waiting] == [False, False]
        server.may_end.set()
        await asyncio.gather(blocking, *waiting)

    serve(scenario)


@pytest.mark.usefixtures("long_pause")
def test_calls_that_end_while_they_wait_take_no_turn() -> None:
    async def scenario(server: Server) -> None:
        blocking = await server.block_beside_others()
        waiting = [asyncio.ensure_future(client_turns.run(MANY, time.sleep, 0)) for _ in range(10)]
        await asyncio.sleep(0)
        for call in waiting:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        server.may_end.set()
        await blocking
        await client_turns.run(MANY, time.sleep, 0)
        await asyncio.sleep(0)
        assert client_turns._clients[MANY].running == []

    serve(scenario)


async def test_running_calls_of_a_client_have_one_share_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(turns, "BURST_SECONDS", 0.05)
    running: list[Call] = []
    client_turns.enter(FEW, lambda call: None)
    for _ in range(8):
        client_turns.enter(MANY, running.append)
    assert len(running) == 8
    for call in running:  # each alone has computed a sixth of the time
        call.started_at -= 0.3
        call._computed_seconds = 0.05
    client_turns.enter(MANY, running.append)
    assert len(running) == 8, "together they have computed for longer than a processor can"


@pytest.mark.usefixtures("long_pause")
def test_a_waiting_request_for_which_no_thread_starts_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MAX_IDLE_THREADS", 0)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario(server: Server) -> None:
        first = server.request(MANY)
        await server.request(FEW, seconds=0)
        waiting = server.request(MANY, seconds=0)
        await asyncio.sleep(0)
        with monkeypatch.context() as no_threads:
            no_threads.setattr(threading.Thread, "start", fail)
            server.may_end.set()
            await first
            done, _ = await asyncio.wait({waiting}, timeout=10)
            assert done
            with pytest.raises(RuntimeError):
                waiting.result()
        await server.request(MANY, seconds=0)
        await until(lambda: not client_turns._running)

    serve(scenario)


def test_probes_wait_for_no_turn() -> None:
    async def scenario(server: Server) -> None:
        requests = [server.request(None) for _ in range(MAX_RUNNING + 5)]
        await until(lambda: server.running.get(None) == len(requests))

    serve(scenario)


def test_an_error_ends_the_turn() -> None:
    async def scenario(server: Server) -> None:
        for _ in range(MAX_RUNNING + 1):
            with pytest.raises(OverflowError):
                await server.request(MANY, seconds=1e300)
        await server.request(MANY, seconds=0)

    serve(scenario)


async def test_a_client_alone_has_two_long_calls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of them delay whoever comes next."""
    monkeypatch.setattr(calls, "ONE_LONG_SECONDS", 60.0)
    own = ClientTurns()
    started: list[Call] = []

    def start(call: Call) -> None:
        call._computed_seconds = 0.5
        started.append(call)

    own.enter("user:1", start)
    own.leave("user:1", started.pop())
    for _ in range(3):
        own.enter("user:1", start)
    await asyncio.sleep(5 * calls.LONG_SECONDS)
    assert len(started) == 2
    own.leave("user:1", started[0])
    assert len(started) == 3


async def test_a_client_that_runs_a_long_call_starts_no_other_beside_long_ones_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 0.0)
    own = ClientTurns()
    started: dict[str, list[Call]] = {name: [] for name in ("one", "two", "new")}
    for name in ("one", "two"):
        own.enter(name, started[name].append)
        started[name][0]._computed_seconds = 0.04  # within its share, as many compute at once
    for name in started:
        own.enter(name, started[name].append)
    assert [len(calls) for calls in started.values()] == [1, 1, 1]


async def test_time_in_which_many_compute_makes_up_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    own = ClientTurns()
    started: dict[str, list[Call]] = {name: [] for name in ("one", "two", "slow")}
    for name in started:
        own.enter(name, started[name].append)
        started[name][0]._computed_seconds = 0.2
    started["slow"][0].started_at -= 10  # the others' calls made it slow
    own.leave("slow", started["slow"][0])
    own.enter("slow", started["slow"].append)
    assert len(started["slow"]) == 1


def test_a_call_that_waits_for_something_else_is_not_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SAMPLE_SECONDS", 0.0)
    call = Call()
    call._computed_seconds = 0.1
    assert call.is_long
    assert not call.is_long, "it has computed nothing since"
    call._computed_seconds = 0.2
    assert call.is_long


async def test_a_call_that_waits_for_the_long_ones_of_others_starts_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MAX_DEBT_SECONDS", 0.04)  # a fifth of a second
    own = ClientTurns()
    started: dict[str, list[Call]] = {name: [] for name in ("long 1", "long 2", "waits")}
    for name in started:
        own.enter(name, started[name].append)
        started[name][0]._computed_seconds = 0.2
    own.enter("waits", started["waits"].append)
    assert len(started["waits"]) == 1
    await until(lambda: len(started["waits"]) == 2)


async def test_a_running_call_is_beside_others_whoever_was_active_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 60.0)
    own = ClientTurns()
    started: dict[str, list[Call]] = {name: [] for name in ("long", "short", "new")}
    for name in ("long", "short"):
        own.enter(name, started[name].append, address=f"address:{name}")
    own.leave("short", started["short"][0])
    own._clients["short"].active_at -= 10
    for address in own._addresses.values():
        address.active_at -= 10
    for _ in range(2):
        own.enter("new", started["new"].append, address="address:new")
    assert len(started["new"]) == 1, "its second call waits beside the long one"
    assert own._is_other_address_active("address:new")


async def test_a_call_that_cannot_start_leaves_no_trace() -> None:
    own = ClientTurns()

    def fail(call: Call) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError):
        own.enter(MANY, fail)
    assert own._running == set()
    assert own._clients[MANY].running == []


async def test_a_turn_is_not_over_before_its_thread_when_it_is_cancelled() -> None:
    may_end, own = threading.Event(), ClientTurns()
    running = asyncio.ensure_future(own.run("user:1", may_end.wait, 30))
    await until(lambda: len(own._running) == 1)
    running.cancel()
    await asyncio.sleep(0.05)
    assert len(own._running) == 1
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not own._running
