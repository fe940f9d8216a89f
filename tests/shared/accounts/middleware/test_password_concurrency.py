"""Limit of concurrent sign-ins in front of Django: a few run, and the rest is refused at once."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.accounts import passwords
from shared.accounts.middleware import password_concurrency
from shared.accounts.middleware.password_concurrency import MAX_BODY_BYTES, PasswordConcurrencyMiddleware
from shared.api.errors import ApiError

pytestmark = pytest.mark.no_database

PATH = "/api/token"


class Django:
    """Application that responds when the test allows it, and counts concurrent requests."""

    def __init__(self) -> None:
        self.may_respond = asyncio.Event()
        self.running = self.max_running = 0
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        try:
            self.bodies.append((await receive())["body"])
            await self.may_respond.wait()
            await send({"type": "http.response.start", "status": 401, "headers": []})
        finally:
            self.running -= 1


class HashingDjango(Django):
    """Application that hashes a password in a thread, then does as the other."""

    def __init__(self, requests: int) -> None:
        super().__init__()
        self._all_run = asyncio.Barrier(requests)
        self.hashed = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.to_thread(passwords.hash_password, "correct horse")
        self.hashed += 1
        async with self._all_run:
            await super().__call__(scope, receive, send)


def post(
    middleware: PasswordConcurrencyMiddleware,
    body: bytes = b"{}",
    *,
    path: str = PATH,
    method: str = "POST",
    address: str = "192.0.2.1",
) -> Awaitable[int]:
    events = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if events:
            return events.pop()
        return await asyncio.Future()

    return _status_of(middleware, receive, _scope(path=path, method=method, address=address))


def _scope(*, path: str = PATH, method: str = "POST", address: str = "192.0.2.1") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": [], "client": (address, 1)}


async def _status_of(
    middleware: PasswordConcurrencyMiddleware, receive: Callable[[], Awaitable[Any]], scope: dict[str, Any]
) -> int:
    statuses: list[int] = []

    async def send(event: dict[str, Any]) -> None:
        statuses.append(event["status"])

    try:
        await middleware(scope, receive, send)
    except ApiError as error:
        return error.problem.status
    return statuses[0] if statuses else 0


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def a_small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_concurrency, "MAX_HASHING_REQUESTS", 7)


def test_a7_a_flood_is_refused_beyond_the_running_requests() -> None:
    async def flood() -> tuple[list[int], Django]:
        django = Django()
        middleware = PasswordConcurrencyMiddleware(django, paths=[PATH])
        requests = [asyncio.ensure_future(post(middleware, json.dumps(number).encode())) for number in range(20)]
        await settle()
        assert django.running == 7
        assert sum(task.done() for task in requests) == 13
        django.may_respond.set()
        return await asyncio.gather(*requests), django

    statuses, django = asyncio.run(flood())
    assert sorted(statuses) == [401] * 7 + [503] * 13
    assert django.max_running == 7
    assert django.bodies == [str(number).encode() for number in range(7)]  # in order of arrival


def test_a7_other_routes_and_methods_are_not_limited() -> None:
    async def crowd() -> list[int]:
        django = Django()
        middleware = PasswordConcurrencyMiddleware(django, paths=[PATH])
        waiting = [asyncio.ensure_future(post(middleware)) for _ in range(7)]
        await settle()
        others = [
            asyncio.ensure_future(post(middleware, path="/api/products")),
            asyncio.ensure_future(post(middleware, method="GET")),
        ]
        await settle()
        assert django.running == 9
        django.may_respond.set()
        return await asyncio.gather(*waiting, *others)

    assert asyncio.run(crowd()) == [401] * 9


def test_a7_a_request_that_has_hashed_keeps_no_other_waiting() -> None:
    async def crowd() -> list[int]:
        django = HashingDjango(requests=14)  # they end when all have hashed
        django.may_respond.set()
        middleware = PasswordConcurrencyMiddleware(django, paths=[PATH])
        first = [asyncio.ensure_future(post(middleware)) for _ in range(7)]
        while django.hashed < len(first):  # noqa: ASYNC110  threads hash
            await asyncio.sleep(0.01)
        return await asyncio.gather(*first, *(post(middleware) for _ in range(7)))

    assert asyncio.run(asyncio.wait_for(crowd(), 30)) == [401] * 14


def test_a7_slow_and_disconnected_clients_occupy_no_slot() -> None:
    async def never() -> Any:
        return await asyncio.Future()

    async def crowd() -> list[int]:
        django = Django()
        django.may_respond.set()
        middleware = PasswordConcurrencyMiddleware(django, paths=[PATH])
        slow = [asyncio.ensure_future(_status_of(middleware, never, _scope())) for _ in range(50)]
        gone = asyncio.ensure_future(post(middleware))
        await settle()
        gone.cancel()
        for task in slow:
            task.cancel()
        return await asyncio.gather(*(post(middleware) for _ in range(5)))

    assert asyncio.run(crowd()) == [401] * 5


def test_a7_a_large_body_is_refused_before_it_waits() -> None:
    async def ask() -> tuple[int, int]:
        django = Django()
        return await post(PasswordConcurrencyMiddleware(django, paths=[PATH]), b"x" * (MAX_BODY_BYTES + 1)), len(
            django.bodies
        )

    assert asyncio.run(ask()) == (413, 0)


async def test_one_address_leaves_places_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sign-ins wait for their turn in places that others would be refused for."""
    monkeypatch.setattr(password_concurrency, "MAX_OF_CLIENT", 3)
    django = Django()
    middleware = PasswordConcurrencyMiddleware(django, paths={PATH})
    sign_ins = [asyncio.ensure_future(post(middleware)) for _ in range(5)]
    other = asyncio.ensure_future(post(middleware, address="192.0.2.2"))
    await settle()
    assert django.running == 4
    django.may_respond.set()
    assert sorted(await asyncio.gather(*sign_ins)) == [401, 401, 401, 503, 503]
    assert await other == 401
    assert await post(middleware) == 401
