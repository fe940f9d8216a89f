"""What a socket says before anybody has signed in on it, where the time that passes is the test's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

from inference.generation import consumers
from inference.generation.consumers import GenerationConsumer
from shared.accounts.middleware.connections import MAX_UNAUTHENTICATED_PER_ADDRESS
from shared.api.errors import ApiError

ANSWERED_WITHIN_S = 30


@asynccontextmanager
async def limit_unauthenticated(address: str) -> AsyncIterator[ApplicationCommunicator]:
    """A socket that has been accepted; it has left afterwards."""
    scope = {"type": "websocket", "path": "/ws", "headers": [], "client": (address, 5000)}
    one = ApplicationCommunicator(GenerationConsumer.as_asgi(), scope)
    await one.send_input({"type": "websocket.connect"})
    assert (await one.receive_output(ANSWERED_WITHIN_S))["type"] == "websocket.accept"
    try:
        yield one
    finally:
        await one.send_input({"type": "websocket.disconnect", "code": 1000})
        await one.wait(ANSWERED_WITHIN_S)


async def its_end(one: ApplicationCommunicator) -> tuple[str, int]:
    """The code of the error that it is told, and the one with which it is closed."""
    error = await one.receive_output(ANSWERED_WITHIN_S)
    closed = await one.receive_output(ANSWERED_WITHIN_S)
    assert closed["type"] == "websocket.close"
    return json.loads(error["text"])["code"], closed["code"]


async def test_s8_a_hundred_sockets_of_an_address_may_be_open_that_have_not_signed_in():
    async with AsyncExitStack() as stack:
        waiting = [
            await stack.enter_async_context(limit_unauthenticated("192.0.2.1"))
            for _ in range(MAX_UNAUTHENTICATED_PER_ADDRESS - 1)
        ]
        async with limit_unauthenticated("192.0.2.1") as last:
            async with limit_unauthenticated("192.0.2.1") as surplus:
                assert await its_end(surplus) == ("INFERENCE_FAILED", 1013)
            async with limit_unauthenticated("192.0.2.2") as other:
                assert await other.receive_nothing()
            assert await last.receive_nothing()
        async with limit_unauthenticated("192.0.2.1") as next_one:
            assert await next_one.receive_nothing()
        assert await waiting[0].receive_nothing()


def slow(outcome: ApiError) -> Callable[[str], Awaitable[Any]]:
    async def answer(credential: str) -> Any:
        await asyncio.sleep(0.3)
        raise outcome

    return answer


async def test_who_says_who_they_are_in_time_has_as_long_as_the_database_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumers, "AUTHENTICATED_WITHIN_S", 0.1)
    monkeypatch.setattr(consumers, "_authenticated", slow(ApiError(503, "Not now.")))
    async with limit_unauthenticated("192.0.2.1") as silent, limit_unauthenticated("192.0.2.1") as asked:
        await asked.send_input({"type": "websocket.receive", "text": '{"type": "auth", "token": "stoa_a_b"}'})
        assert await its_end(silent) == ("AUTHENTICATION_FAILED", 4401)
        assert await its_end(asked) == ("INFERENCE_FAILED", 1013)
