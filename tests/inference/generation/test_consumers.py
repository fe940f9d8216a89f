"""The WebSocket consumer before authentication, with short timeouts."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.utils import timezone

from inference.generation import consumers
from inference.generation.consumers import GenerationConsumer
from shared.accounts.middleware.connections import MAX_UNAUTHENTICATED_PER_ADDRESS
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key
from shared.api.errors import ApiError
from shared.serving.asgi.refusals import RefusalPacer
from shared.serving.db_threads import run_in_db_thread
from tests.shared.accounts.conftest import make_user

REPLY_TIMEOUT_SECONDS = 30


@asynccontextmanager
async def open_connection(address: str) -> AsyncIterator[ApplicationCommunicator]:
    """Yield an accepted connection, and disconnect it afterwards."""
    scope = {"type": "websocket", "path": "/ws", "headers": [], "client": (address, 5000)}
    connection = ApplicationCommunicator(GenerationConsumer.as_asgi(), scope)
    await connection.send_input({"type": "websocket.connect"})
    assert (await connection.receive_output(REPLY_TIMEOUT_SECONDS))["type"] == "websocket.accept"
    try:
        yield connection
    finally:
        await connection.send_input({"type": "websocket.disconnect", "code": 1000})
        await connection.wait(REPLY_TIMEOUT_SECONDS)


async def receive_end(connection: ApplicationCommunicator) -> tuple[str, int]:
    """Return the code of the error and the close code."""
    error = await connection.receive_output(REPLY_TIMEOUT_SECONDS)
    close = await connection.receive_output(REPLY_TIMEOUT_SECONDS)
    assert close["type"] == "websocket.close"
    return json.loads(error["text"])["code"], close["code"]


async def test_s8_unauthenticated_connections_are_limited_per_address():
    async with AsyncExitStack() as stack:
        waiting = [
            await stack.enter_async_context(open_connection("192.0.2.1"))
            for _ in range(MAX_UNAUTHENTICATED_PER_ADDRESS - 1)
        ]
        async with open_connection("192.0.2.1") as last:
            async with open_connection("192.0.2.1") as surplus:
                assert await receive_end(surplus) == ("INFERENCE_FAILED", 1013)
            async with open_connection("192.0.2.2") as other:
                assert await other.receive_nothing()
            assert await last.receive_nothing()
        async with open_connection("192.0.2.1") as next_connection:
            assert await next_connection.receive_nothing()
        assert await waiting[0].receive_nothing()


class Debts(RefusalPacer):
    """A pacer whose clients wait until they may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: list[str] = []
        self.may_go_on = asyncio.Event()

    def count(self, client: str, *, weight: int = 1) -> None:
        self.counted.append(client)

    async def hold(self, client: str) -> float:
        await self.may_go_on.wait()
        return 0.0


async def test_a_first_message_is_not_held_for_the_debts_of_its_address_and_its_refusal_counts(
    monkeypatch: pytest.MonkeyPatch,
):
    pacer = Debts()
    monkeypatch.setattr(consumers, "pacer", pacer)
    async with open_connection("192.0.2.1") as connection:
        await connection.send_input({"type": "websocket.receive", "text": "no JSON"})
        assert await receive_end(connection) == ("AUTHENTICATION_FAILED", 4401)
    assert pacer.counted == ["address:192.0.2.1"]


@pytest.mark.django_db(transaction=True)
async def test_messages_of_a_user_in_debt_wait_and_pings_and_refusals_count(monkeypatch: pytest.MonkeyPatch):
    pacer = Debts()
    monkeypatch.setattr(consumers, "pacer", pacer)
    user, key = await run_in_db_thread(user_with_key)
    async with open_connection("192.0.2.1") as connection:
        for message in ({"type": "auth", "token": key}, {"type": "ping"}, {"type": "cancel", "id": "none"}):
            await connection.send_input({"type": "websocket.receive", "text": json.dumps(message)})
        assert await receive_type(connection) == "auth"
        assert await connection.receive_nothing(0.2)
        pacer.may_go_on.set()
        assert [await receive_type(connection) for _ in range(2)] == ["pong", "error"]
    assert pacer.counted == [f"user:{user.pk}"] * 2


def user_with_key() -> tuple[User, str]:
    user = make_user(Role.STAFF, "debtor@example.com")
    return user, create_api_key(user=user, name="k", now=timezone.now())[1]


async def receive_type(connection: ApplicationCommunicator) -> str:
    message = await connection.receive_output(REPLY_TIMEOUT_SECONDS)
    return str(json.loads(message["text"])["type"])


def slow_lookup(error: ApiError) -> Callable[[str], Awaitable[Any]]:
    async def find_principal(credential: str, *, client: str, address: str) -> Any:
        await asyncio.sleep(0.3)
        raise error

    return find_principal


async def test_a_slow_credential_lookup_does_not_count_against_the_authentication_timeout(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(consumers, "AUTHENTICATION_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(consumers, "_find_principal", slow_lookup(ApiError(503, "Not now.")))
    async with open_connection("192.0.2.1") as silent, open_connection("192.0.2.1") as authenticating:
        await authenticating.send_input({"type": "websocket.receive", "text": '{"type": "auth", "token": "stoa_a_b"}'})
        assert await receive_end(silent) == ("AUTHENTICATION_FAILED", 4401)
        assert await receive_end(authenticating) == ("INFERENCE_FAILED", 1013)
