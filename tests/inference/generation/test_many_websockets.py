"""A thousand WebSocket connections, and a server that stops while some of them are busy."""

import asyncio
import signal

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.inference.running_server import RunningServer, start_server
from tests.inference.websocket_client import (
    open_websocket,
    receive_message,
    receive_until_closed,
    send_messages,
    server_process,
    thousand_websockets,
)

MIB = 1024 * 1024
INFERENCE = {"type": "inference", "model": "talker", "prompt": "speak", "max_tokens": 300}


async def test_s8_one_process_holds_a_thousand_idle_connections(stoa: RunningServer):
    server = server_process(stoa)
    before = server.memory_info().rss
    async with thousand_websockets(stoa) as clients:
        grown = server.memory_info().rss - before
        assert httpx2.get(f"{stoa.url}/livez", timeout=60).status_code == 200
        await asyncio.gather(*(send_messages(client, {"type": "ping"}) for client in clients))
        assert [await receive_message(client) for client in clients] == [{"type": "pong"}] * len(clients)
        assert grown < 2 * 64 * MIB, f"{grown / len(clients) / 1024:.0f} KiB a socket"


async def test_s12_running_inferences_complete_before_the_server_stops(stoa: RunningServer):
    process, url = await asyncio.to_thread(start_server, stoa.environment, stoa.log.with_name("stopping.log"))
    ws = url.replace("http", "ws", 1) + "/ws"
    busy = [await open_websocket(ws, stoa.keys["STAFF"]) for _ in range(2)]
    idle = await open_websocket(ws, stoa.keys["STAFF"])
    for client in busy:
        await send_messages(client, *(INFERENCE | {"id": str(number)} for number in range(8)))
        await receive_message(client)

    process.send_signal(signal.SIGTERM)
    assert (await receive_until_closed(idle))[1] == 1012
    with pytest.raises(InvalidStatus) as refused:
        await connect(ws)
    assert refused.value.response.status_code == 503
    await send_messages(busy[0], INFERENCE | {"id": "late"})
    for client in busy:
        frames, code = await receive_until_closed(client)
        assert code == 1012
        ended = [frame for frame in frames if frame["type"] == "complete"]
        assert sorted(frame["id"] for frame in ended) == [str(number) for number in range(8)]
        assert {frame["finish_reason"] for frame in ended} == {"length"}
        refused_late = [frame for frame in frames if frame["type"] == "error"]
        assert [frame["code"] for frame in refused_late] == ["INFERENCE_FAILED"] * (client is busy[0])
    assert await asyncio.to_thread(process.wait, 60) == 0
