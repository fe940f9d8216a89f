"""Sockets by the thousand, and a server that stops while some of them are busy."""

import asyncio
import json
import signal

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.inference.served import ServedStoa, run_manage, start_server
from tests.inference.sockets import address, hear, hear_the_rest, opened, say, server_process

USERS, SOCKETS_EACH, AT_ONCE = 50, 20, 20
MIB = 1024 * 1024
INFERENCE = {"type": "inference", "model": "talker", "prompt": "speak", "max_tokens": 300}

_MAKE_USERS = f"""
import json
from django.utils import timezone
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
now = timezone.now()
users = [create_user(email=f"many{{n}}@example.com", name="m", password=None, role=Role.STAFF, now=now) for n in range({USERS})]
print(json.dumps([create_api_key(user=user, name="many", now=now)[1] for user in users]))
"""  # noqa: E501


def make_keys(stoa: ServedStoa) -> list[str]:
    made = run_manage(stoa.environment, "shell", "-v0", "-c", _MAKE_USERS)
    assert made.returncode == 0, made.stderr
    keys: list[str] = json.loads(made.stdout.splitlines()[-1])
    return keys


async def test_s8_a_thousand_idle_sockets_are_held_by_one_process(stoa: ServedStoa):
    keys = await asyncio.to_thread(make_keys, stoa)
    server = server_process(stoa)
    before = server.memory_info().rss
    clients: list[ClientConnection] = []
    for start in range(0, USERS * SOCKETS_EACH, AT_ONCE):
        wanted = [keys[number // SOCKETS_EACH] for number in range(start, start + AT_ONCE)]
        clients += await asyncio.gather(*(opened(address(stoa), key) for key in wanted))
    grown = server.memory_info().rss - before
    try:
        assert httpx2.get(f"{stoa.url}/livez", timeout=60).status_code == 200
        await asyncio.gather(*(say(client, {"type": "ping"}) for client in clients))
        assert [await hear(client) for client in clients] == [{"type": "pong"}] * len(clients)
        assert grown < 2 * 64 * MIB, f"{grown / len(clients) / 1024:.0f} KiB a socket"
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def test_s12_what_runs_on_sockets_ends_whole_before_a_server_stops(stoa: ServedStoa):
    process, url = await asyncio.to_thread(start_server, stoa.environment, stoa.log.with_name("stopping.log"))
    ws = url.replace("http", "ws", 1) + "/ws"
    busy = [await opened(ws, stoa.keys["STAFF"]) for _ in range(2)]
    idle = await opened(ws, stoa.keys["STAFF"])
    for client in busy:
        await say(client, *(INFERENCE | {"id": str(number)} for number in range(8)))
        await hear(client)

    process.send_signal(signal.SIGTERM)
    assert (await hear_the_rest(idle))[1] == 1012
    with pytest.raises(InvalidStatus) as refused:
        await connect(ws)
    assert refused.value.response.status_code == 503
    await say(busy[0], INFERENCE | {"id": "late"})
    for client in busy:
        frames, code = await hear_the_rest(client)
        assert code == 1012
        ended = [frame for frame in frames if frame["type"] == "complete"]
        assert sorted(frame["id"] for frame in ended) == [str(number) for number in range(8)]
        assert {frame["finish_reason"] for frame in ended} == {"length"}
        refused_late = [frame for frame in frames if frame["type"] == "error"]
        assert [frame["code"] for frame in refused_late] == ["INFERENCE_FAILED"] * (client is busy[0])
    assert await asyncio.to_thread(process.wait, 60) == 0
