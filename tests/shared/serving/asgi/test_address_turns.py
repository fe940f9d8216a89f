"""Turns of the addresses of clients: many accounts of one address delay others no more than few."""

import asyncio

import pytest

from shared.serving.asgi import calls, turns
from shared.serving.asgi.calls import Call
from shared.serving.asgi.turns import ClientTurns
from tests.shared.serving.asgi.waiting import until

pytestmark = pytest.mark.no_database


def compute_much(own: ClientTurns, address: str) -> None:
    """Let a client of this address have had a call that computed much."""
    started: list[Call] = []
    own.enter(f"importer at {address}", started.append, address=address)
    started[0]._computed_seconds = 2 * turns.SPENT_SECONDS
    own.leave(f"importer at {address}", started[0])


async def test_beside_others_an_address_has_few_calls_of_all_its_users_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(calls, "ONE_LONG_SECONDS", 60.0)
    at_once = calls.MAX_COMPUTING_AT_ADDRESS
    own = ClientTurns()
    started: list[Call] = []
    others: list[Call] = []

    def start(call: Call) -> None:
        call._computed_seconds = calls.LONG_SECONDS
        started.append(call)

    own.enter("user:0", others.append, address="address:other")
    for user in range(1, at_once + 3):
        own.enter(f"user:{user}", start, address="address:one")
    await asyncio.sleep(2 * calls.LONG_SECONDS)
    assert len(started) == at_once
    own.enter("user:100", others.append, address="address:third")
    assert len(others) == 2, "other addresses do not wait"
    own.leave("user:1", started[0])
    assert len(started) == at_once + 1


async def test_beside_others_the_long_calls_of_an_address_have_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    own = ClientTurns()
    started: list[Call] = []
    own.enter("user:0", started.append, address="address:other")
    for user in range(1, 4):
        own.enter(f"user:{user}", started.append, address="address:one")
        started[-1]._computed_seconds = 0.45
        own.leave(f"user:{user}", started[-1])  # each within its own burst
    for user in range(1, 4):
        own.enter(f"user:{user}", started.append, address="address:one")
    assert len(started) == 4, "together they have used more than the share"
    own.enter("user:4", started.append, address="address:one")
    assert len(started) == 5, "whoever had no long call does not wait for those who had"
    own.enter("user:3", started.append, address="address:third")
    assert len(started) == 5, "its earlier call waits first"
    await until(lambda: len(started) > 5)


async def test_beside_others_an_address_starts_calls_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(calls, "ONE_LONG_SECONDS", 60.0)
    own = ClientTurns()
    started: list[int] = []
    running: dict[int, Call] = {}

    def enter(user: int, *, computed: float = 0.0) -> None:
        def start(call: Call) -> None:
            started.append(user)
            running[user], call._computed_seconds = call, computed

        own.enter(f"user:{user}", start, address="address:one")

    own.enter("user:0", lambda call: None, address="address:other")
    compute_much(own, "address:one")
    enter(1)
    enter(2, computed=0.1)
    enter(3)
    enter(4)
    assert started == [1]
    await until(lambda: started == [1, 2])
    await asyncio.sleep(5 * calls.LONG_SECONDS)
    assert started == [1, 2], "the second computes for long"
    enter(5)
    own.leave("user:1", running[1])
    assert started == [1, 2], "it does so still"
    own.leave("user:2", running[2])
    assert started == [1, 2, 3], "first come, first served"
    await until(lambda: started == [1, 2, 3, 4, 5])


async def test_short_calls_wait_a_moment_for_a_long_one_of_their_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request calls its thread several times: only what started just now matters, not what has ended."""
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(calls, "SAMPLE_SECONDS", 60.0)
    own = ClientTurns()
    started: list[Call] = []
    own.enter("user:0", started.append, address="address:other")
    own.enter("importer", started.append, address="address:one")
    started[1]._computed_seconds = 5.0
    started[1].started_at -= calls.ONE_LONG_SECONDS
    for number in range(20):
        own.enter("colleague", started.append, address="address:one")
        assert len(started) == 3 + number, "without a pause"
        own.leave("colleague", started[-1])


async def test_an_address_with_waiting_calls_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 0.02)
    own = ClientTurns()
    started: list[Call] = []

    def start(call: Call) -> None:
        call._computed_seconds = 0.1
        started.append(call)

    for user in range(1, 20):
        own.enter("user:0", started.append, address="address:other")
        own.enter(f"user:{user}", start, address="address:one")
    await asyncio.sleep(0.2)
    assert sum(call.address == "address:one" for call in started) <= 2


async def test_a_blocked_call_of_another_address_counts() -> None:
    """It may wait for a database connection that the calls of this one hold."""
    own = ClientTurns()
    started: list[Call] = []
    own.enter("user:0", started.append, address="address:other")
    started[0]._is_computing, started[0]._sampled_at = False, float("inf")
    compute_much(own, "address:one")
    own._addresses["address:other"].active_at -= 10
    for user in range(1, 3):
        own.enter(f"user:{user}", started.append, address="address:one")
    assert len(started) == 2
    started[0].started_at -= 60
    own.enter("user:2", started.append, address="address:one")
    assert len(started) == 3, "it waits for something else"


async def test_an_address_alone_has_a_whole_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ClientTurns()
    started: list[Call] = []
    for number in range(20):
        user = f"user:{number % 10}"
        own.enter(user, started.append, address="address:one")
        started[-1]._computed_seconds = 0.2
        own.leave(user, started[-1])
    assert len(started) == 20


async def test_an_address_alone_has_the_calls_of_all_its_users_at_once() -> None:
    own = ClientTurns()
    started: list[Call] = []
    for user in range(20):
        own.enter(f"user:{user}", started.append, address="address:one")
    assert len(started) == 20


async def test_an_address_alone_starts_few_calls_that_compute_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of another one, who come next, would wait for all of them."""
    monkeypatch.setattr(calls, "ONE_LONG_SECONDS", 60.0)
    own = ClientTurns()
    started: list[Call] = []

    def start(call: Call) -> None:
        call._computed_seconds = 0.5
        started.append(call)

    for user in range(20):
        own.enter(f"user:{user}", start, address="address:one")
    await asyncio.sleep(0.2)
    assert len(started) == calls.MAX_COMPUTING_AT_ADDRESS


async def test_a_client_of_two_addresses_leaves_the_line_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(calls, "PAUSE_SECONDS", 60.0)
    monkeypatch.setattr(calls, "SAMPLE_SECONDS", 60.0)
    own = ClientTurns()
    running: dict[str, Call] = {}

    def enter(user: str, address: str) -> None:
        own.enter(user, lambda call: running.setdefault(user, call), address=address)

    for address in ("address:one", "address:two"):
        compute_much(own, address)
    enter("first", "address:one")
    enter("second", "address:two")
    is_first_over = False
    own.enter("both", lambda call: None, is_over=lambda: is_first_over, address="address:one")
    enter("both", "address:two")
    enter("third", "address:one")
    assert list(running) == ["first", "second"]
    is_first_over = True
    own.leave("first", running["first"])
    assert list(running) == ["first", "second", "third"]


async def test_an_address_whose_calls_wait_for_something_else_may_have_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads wait for the process that decodes images: nobody else at the address waits for them."""
    monkeypatch.setattr(turns, "ACTIVE_SECONDS", 60.0)
    monkeypatch.setattr(calls, "SAMPLE_SECONDS", 0.0)
    own = ClientTurns()
    started: list[Call] = []
    own.enter("user:0", started.append, address="address:other")
    for user in range(1, calls.MAX_COMPUTING_AT_ADDRESS + 5):
        own.enter(f"user:{user}", started.append, address="address:one")
    assert len(started) == calls.MAX_COMPUTING_AT_ADDRESS + 5
