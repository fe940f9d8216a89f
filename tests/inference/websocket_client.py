"""A client of /ws, as small as can be."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.inference.running_server import RunningServer, run_manage

Message = dict[str, Any]
USERS, SOCKETS_EACH, AT_ONCE = 50, 20, 20

_MAKE_USERS = f"""
import json
from django.utils import timezone
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
now = timezone.now()
users = [create_user(email=f"many{{n}}@example.com", name="m", password=None, role=Role.STAFF, now=now) for n in range({USERS})]
print(json.dumps([create_api_key(user=user, name="many", now=now)[1] for user in users]))
"""  # noqa: E501


def _make_keys(stoa: RunningServer) -> list[str]:
    made = run_manage(stoa.environment, "shell", "-v0", "-c", _MAKE_USERS)
    assert made.returncode == 0, made.stderr
    keys: list[str] = json.loads(made.stdout.splitlines()[-1])
    return keys


def server_process(stoa: RunningServer) -> psutil.Process:
    """The web process, which its log names."""
    lines = (json.loads(line) for line in stoa.log.read_text().splitlines())
    return psutil.Process(next(line["pid"] for line in lines if line["event"] == "serving"))


def websocket_url(stoa: RunningServer, query: str = "") -> str:
    return stoa.url.replace("http", "ws", 1) + "/ws" + query


async def open_websocket(url: str, key: str) -> ClientConnection:
    """A socket that has signed in, however long it takes."""
    client = await connect(url, open_timeout=60, ping_interval=None)
    await send_messages(client, {"type": "auth", "token": key})
    assert (await receive_message(client))["type"] == "auth"
    return client


@asynccontextmanager
async def authenticated_websocket(stoa: RunningServer, token: str | None = None) -> AsyncIterator[ClientConnection]:
    async with connect(websocket_url(stoa)) as client:
        await send_messages(client, {"type": "auth", "token": token or stoa.keys["SUPER_ADMIN"]})
        assert (await receive_message(client))["type"] == "auth"
        yield client


@asynccontextmanager
async def thousand_websockets(stoa: RunningServer) -> AsyncIterator[list[ClientConnection]]:
    """Signed in, as many as a user may have for each of fifty users."""
    keys = await asyncio.to_thread(_make_keys, stoa)
    clients: list[ClientConnection] = []
    for start in range(0, USERS * SOCKETS_EACH, AT_ONCE):
        wanted = [keys[number // SOCKETS_EACH] for number in range(start, start + AT_ONCE)]
        clients += await asyncio.gather(*(open_websocket(websocket_url(stoa), key) for key in wanted))
    try:
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def send_messages(client: ClientConnection, *frames: object) -> None:
    for frame in frames:
        await client.send(json.dumps(frame))


async def receive_message(client: ClientConnection) -> Message:
    async with asyncio.timeout(60):
        frame: Message = json.loads(await client.recv())
        return frame


async def send_and_receive_each(client: ClientConnection, *frames: object) -> list[Message]:
    """Send invalid frames and return the response to each."""
    answers = []
    for frame in frames:
        await client.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
        answers.append(await receive_message(client))
    return answers


async def receive_until(client: ClientConnection, *kinds: str) -> list[Message]:
    frames = [await receive_message(client)]
    while frames[-1]["type"] not in kinds:
        frames.append(await receive_message(client))
    return frames


async def receive_until_closed(client: ClientConnection) -> tuple[list[Message], int | None]:
    """All that is still said, and the code with which the service closes."""
    frames: list[Message] = []
    try:
        while True:
            frames.append(await receive_message(client))
    except ConnectionClosed:
        return frames, client.close_code
