"""Spacing of 429 responses to one address."""

import asyncio

import pytest

from shared.serving.asgi import refusals, responses
from shared.serving.asgi.refusals import BURST, MAX_ADDRESSES, MAX_WAIT_SECONDS, PER_SECOND, RefusalPacer
from shared.serving.asgi.responses import ResponseSender
from shared.serving.asgi.types import Event


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(refusals.time, "monotonic", lambda: now[0])
    return now


def test_refusals_above_the_burst_are_spaced_and_other_addresses_are_not_delayed(clock: list[float]):
    pacer = RefusalPacer()
    assert {pacer.wait_seconds("192.0.2.1") for _ in range(BURST)} == {0.0}
    waits = [pacer.wait_seconds("192.0.2.1") for _ in range(3)]
    assert waits == pytest.approx([1 / PER_SECOND, 2 / PER_SECOND, 3 / PER_SECOND])
    assert pacer.wait_seconds("192.0.2.2") == 0


def test_no_refusal_waits_longer_than_the_limit_and_a_pause_ends_the_delay(clock: list[float]):
    pacer = RefusalPacer()
    longest = max(pacer.wait_seconds("192.0.2.1") for _ in range(BURST + 100 * int(PER_SECOND)))
    assert longest == pytest.approx(MAX_WAIT_SECONDS)
    clock[0] += MAX_WAIT_SECONDS + BURST / PER_SECOND
    assert pacer.wait_seconds("192.0.2.1") == 0


def test_the_addresses_seen_longest_ago_are_forgotten(clock: list[float]):
    pacer = RefusalPacer()
    for number in range(2 * MAX_ADDRESSES):
        pacer.wait_seconds(str(number))
    assert len(pacer._due) == MAX_ADDRESSES


@pytest.mark.parametrize(
    ("status", "address", "is_held"), [(429, "192.0.2.1", True), (429, "", False), (200, "192.0.2.1", False)]
)
def test_only_a_refusal_is_held_back(status: int, address: str, is_held: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refusals, "BURST", 0)
    monkeypatch.setattr(responses, "pacer", RefusalPacer())
    sent: list[Event] = []

    async def send(event: Event) -> None:
        sent.append(event)

    sender = ResponseSender(send, path="/", request_id="req_1")
    sender.address = address
    asyncio.run(sender({"type": "http.response.start", "status": status, "headers": []}))
    assert (sender.held_seconds > 0) is is_held
    assert sent[0]["status"] == status
