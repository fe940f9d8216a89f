"""Spacing of the requests of a client that goes on after 429."""

import asyncio

import pytest

from shared.api.limits.rate_limits import RateLimitDecision
from shared.serving.asgi import refusals, wrapper
from shared.serving.asgi.refusals import BURST, CLIENT_KEY, MAX_CLIENTS, MAX_WAIT_SECONDS, PER_SECOND, RefusalPacer
from shared.serving.asgi.types import Event, Receive, Scope, Send

ONE, OTHER = "user:1", "user:2"


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(refusals.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(refusals.asyncio, "sleep", clock.sleep)
    return clock


def held(pacer: RefusalPacer, client: str) -> float:
    return asyncio.run(pacer.hold(client))


def test_requests_wait_after_the_burst_and_those_of_others_do_not(clock: Clock):
    pacer = RefusalPacer()
    for _ in range(BURST):
        assert held(pacer, ONE) == 0
        pacer.count(ONE)
    waits = []
    for _ in range(3):
        pacer.count(ONE)
        waits.append(held(pacer, ONE))
    assert waits == pytest.approx([1 / PER_SECOND] * 3)
    assert held(pacer, OTHER) == 0


def test_no_request_waits_longer_than_the_limit_and_a_pause_ends_the_debt(clock: Clock):
    pacer = RefusalPacer()
    for _ in range(BURST + 100 * int(PER_SECOND)):
        pacer.count(ONE)
    assert held(pacer, ONE) == pytest.approx(MAX_WAIT_SECONDS)
    clock.now += BURST / PER_SECOND
    assert held(pacer, ONE) == 0


def test_the_clients_refused_longest_ago_are_forgotten(clock: Clock):
    pacer = RefusalPacer()
    for number in range(2 * MAX_CLIENTS):
        pacer.count(str(number))
    assert len(pacer._due) == MAX_CLIENTS


class Requests:
    """Requests to an application behind the wrapper and a pacer of its own."""

    def __init__(self, clock: Clock, monkeypatch: pytest.MonkeyPatch, rate_limit: wrapper.RateLimitHook) -> None:
        monkeypatch.setattr(wrapper, "pacer", RefusalPacer())
        self._clock = clock
        self._application = wrapper.wrap(self._respond, rate_limit=rate_limit)

    async def held(self, address: str, credential: int) -> float:
        """Send a request. Return the seconds until its response."""
        scope = {"type": "http", "method": "GET", "path": "/readyz", "raw_path": b"/readyz", "query_string": b""}
        headers = [(b"host", b"localhost"), (b"authorization", b"Bearer %d" % credential)]
        before = self._clock.now
        await self._application(scope | {"headers": headers, "client": (address, 1234)}, self._receive, self._send)
        return self._clock.now - before

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _receive(self) -> Event:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, event: Event) -> None:
        pass


def test_a_flood_of_probes_is_spaced_by_its_address_whatever_credentials_it_sends(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    async def never_limited(scope: Scope) -> None:
        return None

    requests = Requests(clock, monkeypatch, never_limited)

    async def flood() -> None:
        burst = BURST // wrapper.PROBE_WEIGHT
        assert not any([await requests.held("192.0.2.1", number) for number in range(burst)])
        waits = [await requests.held("192.0.2.1", number) for number in range(4)]
        assert waits[1:] == pytest.approx([wrapper.PROBE_WEIGHT / PER_SECOND] * 3)
        assert await requests.held("192.0.2.2", 1) == 0

    asyncio.run(flood())


def test_refusals_of_made_up_credentials_are_spaced_by_their_address_and_those_of_a_user_by_the_user(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    async def always_limited(scope: Scope) -> RateLimitDecision:
        if b"Bearer 1" in dict(scope["headers"]).values():
            scope[CLIENT_KEY] = "user:1"
        return RateLimitDecision(allowed=False, limit=1, remaining=0, reset_at=1, reset_after=60)

    requests = Requests(clock, monkeypatch, always_limited)

    async def flood() -> None:
        assert not any([await requests.held("192.0.2.1", 2 + number) for number in range(BURST)])
        await requests.held("192.0.2.1", 0)
        assert await requests.held("192.0.2.1", 0) == pytest.approx(1 / PER_SECOND)
        assert await requests.held("192.0.2.1", 1) == 0

    asyncio.run(flood())
