"""Who may have a WebSocket, and how much of it, from outside."""

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
from tests.inference.served import PASSWORD, ServedStoa, eventually_running, run_manage
from tests.inference.sockets import (
    address,
    hear,
    hear_the_rest,
    hear_until,
    opened,
    refusals,
    say,
    server_process,
    signed_in,
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
async def test_s6_who_does_not_sign_in_first_is_closed_with_4401(stoa: ServedStoa, first: str | bytes):
    async with connect(address(stoa, f"?token={stoa.keys['SUPER_ADMIN']}")) as client:
        await client.send(first)
        await say(client, INFERENCE)
        frames, code = await hear_the_rest(client)

    assert [frame["code"] for frame in frames] == ["AUTHENTICATION_FAILED"]
    assert code == 4401
    assert stoa.keys["SUPER_ADMIN"] not in stoa.log.read_text()


async def test_s6_who_says_nothing_is_closed_within_ten_seconds(stoa: ServedStoa):
    async with connect(address(stoa)) as client:
        began = time.monotonic()
        frames, code = await hear_the_rest(client)
    assert ([frame["code"] for frame in frames], code) == (["AUTHENTICATION_FAILED"], 4401)
    assert time.monotonic() - began > 9


async def test_a_key_that_may_not_run_models_is_told_so_and_stays(stoa: ServedStoa):
    async with signed_in(stoa, stoa.keys["READER"]) as client:
        for _ in range(2):
            (refused,) = await refusals(client, INFERENCE)
            assert (refused["code"], refused["id"]) == ("AUTHORIZATION_FAILED", "a")


async def test_s5_more_messages_than_are_read_end_with_1008(stoa: ServedStoa):
    async with signed_in(stoa) as client:
        with suppress(ConnectionClosed):
            await say(client, *[{"type": "ping"}] * 2000)
        frames, code = await hear_the_rest(client)
    assert frames[-1]["code"] == "RATE_LIMIT_EXCEEDED"
    assert code == 1008


async def test_s5_a_message_over_one_mebibyte_ends_with_1009_and_one_below_is_read(stoa: ServedStoa):
    async with signed_in(stoa) as client:
        (refused,) = await refusals(client, INFERENCE | {"unknown": "x" * 900_000})
        assert refused["details"]["field"] == "unknown"
        await client.send("x" * (2**20 + 1))
        assert (await hear_the_rest(client))[1] == 1009


async def test_s4_who_reads_nothing_of_a_loud_model_is_closed_with_1013_and_costs_little(stoa: ServedStoa):
    server = server_process(stoa)
    async with signed_in(stoa) as warm:
        await say(warm, INFERENCE | {"prompt": "shout", "max_tokens": 5})
        await hear_until(warm, "complete")
    before = server.memory_info().rss
    async with signed_in(stoa) as client:
        client.transport.pause_reading()
        await say(
            client, *(INFERENCE | {"id": str(number), "prompt": "shout", "max_tokens": 4000} for number in range(8))
        )
        await eventually_running(stoa, "talker")
        await eventually_idle(stoa.engine, "talker", seconds=60)
        assert server.memory_info().rss - before < 64 * 2**20
        client.transport.resume_reading()
        assert (await hear_the_rest(client))[1] == 1013
    await stoa.engine.close()


async def _revoked_key(stoa: ServedStoa) -> tuple[str, Callable[[], Awaitable[Any]]]:
    make = "create_api_key(user=User.objects.get(email='staff@example.com'), name='x', now=timezone.now())"
    made = run_manage(stoa.environment, "shell", "-v0", "-c", _REVOKE.format(f"print({make}[1])"))
    assert made.returncode == 0, made.stderr
    key = made.stdout.split()[0]
    code = f"revoke_api_key(api_key=ApiKey.objects.get(key_id={key.split('_')[1]!r}), now=timezone.now())"
    return key, lambda: asyncio.to_thread(run_manage, stoa.environment, "shell", "-v0", "-c", _REVOKE.format(code))


async def _ended_sign_in(stoa: ServedStoa) -> tuple[str, Callable[[], Awaitable[Any]]]:
    login = {"username": "store_owner@example.com", "password": PASSWORD}
    token = httpx2.post(f"{stoa.url}/auth/login", json=login, timeout=60).json()["token"]
    code = "SignIn.objects.filter(user__role='STORE_OWNER').update(revoked_at=timezone.now())"
    return token, lambda: asyncio.to_thread(run_manage, stoa.environment, "shell", "-v0", "-c", _REVOKE.format(code))


@pytest.mark.parametrize("credential", [_revoked_key, _ended_sign_in])
async def test_s9_a_credential_that_is_revoked_closes_its_sockets_with_4401(
    stoa: ServedStoa, credential: Callable[[ServedStoa], Awaitable[tuple[str, Callable[[], Awaitable[Any]]]]]
):
    token, revoke = await credential(stoa)
    async with signed_in(stoa, token) as client, signed_in(stoa) as other:
        await say(client, INFERENCE | {"prompt": "silence"})
        revoking = asyncio.create_task(revoke())
        frames, code = await hear_the_rest(client)
        heard_at = time.time()
        revoked_at = float((await revoking).stdout.split()[-1])
        assert heard_at - revoked_at < 2  # a second, and one for a busy machine
        assert ([frame["code"] for frame in frames], code) == (["AUTHENTICATION_FAILED"], 4401)
        assert (await refusals(other, {"type": "ping"}))[0] == {"type": "pong"}
        await eventually_idle(stoa.engine, "talker", seconds=30)
    async with connect(address(stoa)) as client:
        await say(client, {"type": "auth", "token": token})
        assert (await hear_the_rest(client))[1] == 4401
    await stoa.engine.close()


async def test_s8_one_user_has_twenty_sockets(stoa: ServedStoa):
    clients = await asyncio.gather(*(opened(address(stoa), stoa.keys["STAFF"]) for _ in range(20)))
    try:
        async with connect(address(stoa)) as surplus:
            await say(surplus, {"type": "auth", "token": stoa.keys["STAFF"]})
            frames, code = await hear_the_rest(surplus)
            assert ([frame["code"] for frame in frames], code) == (["INFERENCE_FAILED"], 1013)
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    async with signed_in(stoa, stoa.keys["STAFF"]):
        pass


async def test_a_further_auth_renews_the_credential_and_a_wrong_one_ends_the_socket(stoa: ServedStoa):
    async with signed_in(stoa) as client:
        await say(client, {"type": "auth", "token": stoa.keys["STAFF"]})
        assert (await hear(client))["user"]["role"] == "STAFF"
        await say(client, {"type": "auth", "token": "wrong"})
        assert (await hear_the_rest(client))[1] == 4401
