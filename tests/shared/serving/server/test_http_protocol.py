"""The HTTP protocol's answers to what is not a valid request."""

import asyncio

import pytest
import uvicorn
from uvicorn.server import ServerState

from shared.serving.asgi.types import Receive, Scope, Send
from shared.serving.server import http_protocol
from shared.serving.server.http_protocol import LimitedHttpProtocol

pytestmark = pytest.mark.no_database


class Debts:
    """A pacer in which every client is in debt for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.counted: list[str] = []

    def count(self, client: str) -> None:
        self.counted.append(client)

    def wait_seconds(self, client: str) -> float:
        return self._seconds


@pytest.mark.parametrize("head", [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n"])
@pytest.mark.parametrize("debt_s", [0.0, 0.05, 3600.0])
async def test_invalid_requests_of_an_address_are_answered_when_it_is_out_of_debt(
    monkeypatch: pytest.MonkeyPatch, head: bytes, debt_s: float
) -> None:
    pacer = Debts(debt_s)
    monkeypatch.setattr(http_protocol, "pacer", pacer)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    config, state = uvicorn.Config(application, lifespan="off", log_config=None), ServerState()
    config.load()
    server = await asyncio.get_running_loop().create_server(
        lambda: LimitedHttpProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(head)
        if debt_s < 60:
            assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 400 ")
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 0.3)
        writer.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
    assert pacer.counted == ["address:127.0.0.1"]
