"""Authentication and limits of WebSocket connections."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.inference.engine.processes import eventually_idle
from tests.inference.running_server import PASSWORD, RunningServer, run_manage, wait_until_generating
from tests.inference.websocket_client import (
    authenticated_websocket,
    open_websocket,
    receive_message,
    receive_until,
    receive_until_closed,
    send_and_receive_each,
    send_messages,
    server_process,
    websocket_url,
)

INFERENCE = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak"}

_REVOKE = """
import time
from django.utils import timezone
from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.services import create_api_key, revoke_api_key
{}
print(time.time())
"""


@pytest.mark.parametrize(
    "first",
    [
        json.dumps(INFERENCE),
        json.dumps({"type": "ping"}),
        json.dumps({"type": "auth", "token": "stoa_0000_wrong"}),
        json.dumps({"type": "auth", "token": "x" * 100_000}),
        json.dumps({"type": "auth", "token": 7}),
        json.dumps({"type": "auth"}),
        "{",
        b"\x00",
    ],
)
async def test_s6_a_connection_without_authentication_first_is_closed_with_4401(
    stoa: RunningServer, first: str | bytes
):
    async with connect(websocket_url(stoa, f"?token={stoa.keys['SUPER_ADMIN']}")) as client:
        await client.send(first)
        await send_messages(client, INFERENCE)
        frames, code = await receive_until_closed(client)

    assert [frame["code"] for frame in frames] == ["AUTHENTICATION_FAILED"]
    assert code == 4401
    assert stoa.keys["SUPER_ADMIN"] not in stoa.log.read_text()


async def test_s6_a_silent_connection_is_closed_within_ten_seconds(stoa: RunningServer):
    async with connect(websocket_url(stoa)) as client:
        began = time.monotonic()
        frames, code = await receive_until_closed(client)
    assert ([frame["code"] for frame in frames], code) == (["AUTHENTICATION_FAILED"], 4401)
    assert time.monotonic() - began > 9


async def test_a_key_without_run_inference_gets_an_error_and_stays_connected(stoa: RunningServer):
    async with authenticated_websocket(stoa, stoa.keys["READER"]) as client:
        for _ in range(2):
            (refused,) = await send_and_receive_each(client, INFERENCE)
            assert (refused["code"], refused["id"]) == ("AUTHORIZATION_FAILED", "a")


async def test_s5_too_many_messages_close_the_connection_with_1008(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        with suppress(ConnectionClosed):
            await send_messages(client, *[{"type": "ping"}] * 2000)
        frames, code = await receive_until_closed(client)
    assert frames[-1]["code"] == "RATE_LIMIT_EXCEEDED"
    assert code == 1008


async def test_s5_a_message_above_one_mebibyte_closes_with_1009_and_one_below_is_read(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        (refused,) = await send_and_receive_each(client, INFERENCE | {"unknown": "x" * 900_000})
        assert refused["details"]["field"] == "unknown"
        await client.send("x" * (2**20 + 1))
        assert (await receive_until_closed(client))[1] == 1009


async def test_s4_a_client_that_does_not_read_is_closed_with_1013_and_uses_little_memory(stoa: RunningServer):
    server = server_process(stoa)
    async with authenticated_websocket(stoa) as warm:
        await send_messages(warm, INFERENCE | {"prompt": "shout", "max_tokens": 5})
        await receive_until(warm, "complete")
    before = server.memory_info().rss
    async with authenticated_websocket(stoa) as client:
        client.transport.pause_reading()
        await send_messages(
            client, *(INFERENCE | {"id": str(number), "prompt": "shout", "max_tokens": 4000} for number in range(8))
        )
        await wait_until_generating(stoa, "talker")
        await eventually_idle(stoa.engine, "talker", seconds=60)
        assert server.memory_info().rss - before < 64 * 2**20
        client.transport.resume_reading()
        assert (await receive_until_closed(client))[1] == 1013
    await stoa.engine.close()


async def _revoked_key(stoa: RunningServer) -> tuple[str, Callable[[], Awaitable[Any]]]:
    make = "create_api_key(user=User.objects.get(email='staff@example.com'), name='x', now=timezone.now())"
    made = run_manage(stoa.environment, "shell", "-v0", "-c", _REVOKE.format(f"print({make}[1])"))
    assert made.returncode == 0, made.stderr
    key = made.stdout.split()[0]
    code = f"revoke_api_key(api_key=ApiKey.objects.get(key_id={key.split('_')[1]!r}), now=timezone.now())"
    return key, lambda: asyncio.to_thread(run_manage, stoa.environment, "shell", "-v0", "-c", _REVOKE.format(code))


async def _ended_sign_in(stoa: RunningServer) -> tuple[str, Callable[[], Awaitable[Any]]]:
    login = {"username": "store_owner@example.com", "password": PASSWORD}
    token = httpx2.post(f"{stoa.url}/auth/login", json=login, timeout=60).json()["token"]
    code = "SignIn.objects.filter(user__role='STORE_OWNER').update(revoked_at=timezone.now())"
    return token, lambda: asyncio.to_thread(run_manage, stoa.environment, "shell", "-v0", "-c", _REVOKE.format(code))


@pytest.mark.parametrize("credential", [_revoked_key, _ended_sign_in])
async def test_s9_a_revoked_credential_closes_its_connections_with_4401(
    stoa: RunningServer, credential: Callable[[RunningServer], Awaitable[tuple[str, Callable[[], Awaitable[Any]]]]]
):
    token, revoke = await credential(stoa)
    async with authenticated_websocket(stoa, token) as client, authenticated_websocket(stoa) as other:
        await send_messages(client, INFERENCE | {"prompt": "silence"})
        revoking = asyncio.create_task(revoke())
        frames, code = await receive_until_closed(client)
        heard_at = time.time()
        revoked_at = float((await revoking).stdout.split()[-1])
        assert heard_at - revoked_at < 2  # a second, and one for a busy machine
        assert ([frame["code"] for frame in frames], code) == (["AUTHENTICATION_FAILED"], 4401)
        assert (await send_and_receive_each(other, {"type": "ping"}))[0] == {"type": "pong"}
        await eventually_idle(stoa.engine, "talker", seconds=30)
    async with connect(websocket_url(stoa)) as client:
        await send_messages(client, {"type": "auth", "token": token})
        assert (await receive_until_closed(client))[1] == 4401
    await stoa.engine.close()


async def test_s8_one_user_has_at_most_twenty_connections(stoa: RunningServer):
    clients = await asyncio.gather(*(open_websocket(websocket_url(stoa), stoa.keys["STAFF"]) for _ in range(20)))
    try:
        async with connect(websocket_url(stoa)) as surplus:
            await send_messages(surplus, {"type": "auth", "token": stoa.keys["STAFF"]})
            frames, code = await receive_until_closed(surplus)
            assert ([frame["code"] for frame in frames], code) == (["INFERENCE_FAILED"], 1013)
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    async with authenticated_websocket(stoa, stoa.keys["STAFF"]):
        pass


async def test_a_further_auth_renews_the_credential_and_an_invalid_one_closes_the_connection(stoa: RunningServer):
    async with authenticated_websocket(stoa) as client:
        await send_messages(client, {"type": "auth", "token": stoa.keys["STAFF"]})
        assert (await receive_message(client))["user"]["role"] == "STAFF"
        await send_messages(client, {"type": "auth", "token": "wrong"})
        assert (await receive_until_closed(client))[1] == 4401
