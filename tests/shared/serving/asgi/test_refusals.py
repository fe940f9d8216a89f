"""Spacing of the requests of a client that goes on after 429."""

import asyncio

import pytest

from shared.serving.asgi import refusals, wrapper
from shared.serving.asgi.refusals import BURST, MAX_CLIENTS, MAX_WAIT_SECONDS, PER_SECOND, RefusalPacer, client_of
from shared.serving.asgi.types import Event, Headers, Receive, Scope, Send

ONE, OTHER = 1, 2


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


def held(pacer: RefusalPacer, client: int) -> float:
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
        pacer.count(number)
    assert len(pacer._due) == MAX_CLIENTS


def client(address: str, *headers: tuple[bytes, bytes]) -> int:
    sent: Headers = list(headers)
    return client_of({"client": (address, 1234), "headers": sent})


def test_a_client_is_an_address_with_a_credential_in_any_spelling():
    same = {
        client("192.0.2.1", (b"authorization", b"Bearer key")),
        client("192.0.2.1", (b"authorization", b"bearer   key ")),
        client("192.0.2.1", (b"x-api-key", b" key")),
    }
    others = {
        client("192.0.2.1"),
        client("192.0.2.1", (b"authorization", b"Bearer another")),
        client("192.0.2.2", (b"authorization", b"Bearer key")),
    }
    assert len(same) == 1
    assert len(same | others) == 4
    assert client("2001:db8::1") == client("2001:db8::2")


def test_a_flood_of_probes_is_spaced_by_its_address_whatever_credentials_it_sends(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    pacer = RefusalPacer()
    monkeypatch.setattr(wrapper, "pacer", pacer)

    async def never_limited(scope: Scope) -> None:
        return None

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Event:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Event) -> None:
        pass

    probed = wrapper.wrap(application, rate_limit=never_limited)

    async def probe(address: str, number: int) -> float:
        headers = [(b"host", b"localhost"), (b"authorization", b"Bearer %d" % number)]
        scope = {"type": "http", "method": "GET", "path": "/readyz", "raw_path": b"/readyz", "query_string": b""}
        before = clock.now
        await probed(scope | {"headers": headers, "client": (address, 1234)}, receive, send)
        return clock.now - before

    async def flood() -> None:
        assert not any([await probe("192.0.2.1", number) for number in range(BURST)])
        assert [await probe("192.0.2.1", number) for number in range(3)] == pytest.approx([1 / PER_SECOND] * 3)
        assert await probe("192.0.2.2", 1) == 0

    asyncio.run(flood())
