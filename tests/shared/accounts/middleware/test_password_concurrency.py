"""A flood of sign-ins in front of Django: a few come in, a few wait, and the rest is refused at once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.accounts.middleware import password_concurrency
from shared.accounts.middleware.password_concurrency import MAX_BODY_BYTES, PasswordConcurrencyMiddleware
from shared.api.errors import ApiError

pytestmark = pytest.mark.no_database

PATH = "/api/token"


class Django:
    """Stands where Django does: answers when it is let, and knows how many it has at once."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.inside = self.most = 0
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            self.bodies.append((await receive())["body"])
            await self.may_answer.wait()
            await send({"type": "http.response.start", "status": 401, "headers": []})
        finally:
            self.inside -= 1


def post(
    gate: PasswordConcurrencyMiddleware, body: bytes = b"{}", *, path: str = PATH, method: str = "POST"
) -> Awaitable[int]:
    events = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if events:
            return events.pop()
        return await asyncio.Future()

    return _status_of(gate, receive, path=path, method=method)


async def _status_of(
    gate: PasswordConcurrencyMiddleware, receive: Callable[[], Awaitable[Any]], *, path: str, method: str
) -> int:
    statuses: list[int] = []

    async def send(event: dict[str, Any]) -> None:
        statuses.append(event["status"])

    try:
        await gate({"type": "http", "method": method, "path": path, "headers": []}, receive, send)
    except ApiError as error:
        return error.problem.status
    return statuses[0] if statuses else 0


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_concurrency, "MAX_CONCURRENT_HASHES", 2)
    monkeypatch.setattr(password_concurrency, "MAX_WAITING_REQUESTS", 5)


def test_a7_no_more_come_in_than_may_hash_a_few_wait_and_the_others_are_refused_at_once() -> None:
    async def flood() -> tuple[list[int], Django]:
        django = Django()
        gate = PasswordConcurrencyMiddleware(django, paths=[PATH])
        asked = [asyncio.ensure_future(post(gate, json.dumps(number).encode())) for number in range(20)]
        await settle()
        assert django.inside == 2
        assert sum(task.done() for task in asked) == 13
        django.may_answer.set()
        return await asyncio.gather(*asked), django

    statuses, django = asyncio.run(flood())
    assert sorted(statuses) == [401] * 7 + [503] * 13
    assert django.most == 2
    assert django.bodies == [str(number).encode() for number in range(7)]  # in the order in which they came


def test_a7_other_routes_and_methods_are_not_held_up() -> None:
    async def crowd() -> list[int]:
        django = Django()
        gate = PasswordConcurrencyMiddleware(django, paths=[PATH])
        held = [asyncio.ensure_future(post(gate)) for _ in range(4)]
        await settle()
        others = [
            asyncio.ensure_future(post(gate, path="/api/products")),
            asyncio.ensure_future(post(gate, method="GET")),
        ]
        await settle()
        assert django.inside == 4
        django.may_answer.set()
        return await asyncio.gather(*held, *others)

    assert asyncio.run(crowd()) == [401] * 6


def test_a7_who_waits_too_long_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_concurrency, "MAX_WAIT_SECONDS", 0.05)

    async def crowd() -> list[int]:
        django = Django()
        gate = PasswordConcurrencyMiddleware(django, paths=[PATH])
        asked = [asyncio.ensure_future(post(gate)) for _ in range(3)]
        refused = await asked[2]
        django.may_answer.set()
        return [*await asyncio.gather(*asked[:2]), refused, await post(gate)]

    assert asyncio.run(crowd()) == [401, 401, 503, 401]


def test_a7_a_slow_sender_and_one_who_leaves_take_nobodys_turn() -> None:
    async def never() -> Any:
        return await asyncio.Future()

    async def crowd() -> list[int]:
        django = Django()
        django.may_answer.set()
        gate = PasswordConcurrencyMiddleware(django, paths=[PATH])
        slow = [asyncio.ensure_future(_status_of(gate, never, path=PATH, method="POST")) for _ in range(50)]
        gone = asyncio.ensure_future(post(gate))
        await settle()
        gone.cancel()
        for task in slow:
            task.cancel()
        return await asyncio.gather(*(post(gate) for _ in range(5)))

    assert asyncio.run(crowd()) == [401] * 5


def test_a7_what_is_larger_than_any_password_is_refused_before_its_turn() -> None:
    async def ask() -> tuple[int, int]:
        django = Django()
        return await post(PasswordConcurrencyMiddleware(django, paths=[PATH]), b"x" * (MAX_BODY_BYTES + 1)), len(
            django.bodies
        )

    assert asyncio.run(ask()) == (413, 0)
