"""The HTTP protocol's answers to what is not a valid request, and requests that are sent ahead of their responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from shared.serving.asgi.types import Application, Receive, Scope, Send
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


@asynccontextmanager
async def connect(
    application: Application, state: ServerState | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve the application, and yield one connection to it."""
    config, state = uvicorn.Config(application, lifespan="off", log_config=None), state or ServerState()
    config.load()
    server = await asyncio.get_running_loop().create_server(
        lambda: LimitedHttpProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer
        writer.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize("head", [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n"])
@pytest.mark.parametrize("debt_s", [0.0, 0.05, 3600.0])
async def test_invalid_requests_of_an_address_are_answered_when_it_is_out_of_debt(
    monkeypatch: pytest.MonkeyPatch, head: bytes, debt_s: float
) -> None:
    pacer = Debts(debt_s)
    monkeypatch.setattr(http_protocol, "pacer", pacer)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    async with connect(application) as (reader, writer):
        writer.write(head)
        if debt_s < 60:
            assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 400 ")
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(), 0.3)
    assert pacer.counted == ["address:127.0.0.1"]


class Echo:
    """An application that answers with the path and the length of the body, once it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = await read_body(receive)
        leaving = asyncio.ensure_future(receive())  # as Django's handler does
        await self.may_answer.wait()
        leaving.cancel()
        body = b"%s %d;" % (scope["path"].encode(), length)
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> int:
    length, more = 0, True
    while more:
        event = await receive()
        length, more = length + len(event.get("body", b"")), event.get("more_body", False)
    return length


async def test_requests_that_are_sent_ahead_wait_unparsed_and_are_answered_in_order() -> None:
    """50 connections with such requests held 1.6 GB, and whoever else asked waited until they were all parsed."""
    echo, count, state = Echo(), 20_000, ServerState()
    async with connect(echo, state) as (reader, writer):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % number for number in range(count)))
        await asyncio.sleep(0.5)
        (connection,) = state.connections
        assert isinstance(connection, LimitedHttpProtocol)
        assert 0 < len(connection.pipeline) < 50
        echo.may_answer.set()
        for number in range(count):
            assert await read_response(reader) == b"/%d 0;" % number


@pytest.mark.parametrize("piece", [700, 100_000, 10_000_000])
async def test_bodies_of_requests_that_are_sent_ahead_are_whole(piece: int) -> None:
    lengths = [0, 5_000_000, 1, 511, 512, 70_000, 0, 300_000]
    data = b"".join(
        b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (number, length) + b"x" * length
        for number, length in enumerate(lengths)
    )
    echo = Echo()
    echo.may_answer.set()
    async with connect(echo) as (reader, writer):
        for start in range(0, len(data), piece):
            writer.write(data[start : start + piece])
            await asyncio.sleep(0)
        for number, length in enumerate(lengths):
            assert await asyncio.wait_for(read_response(reader), 30) == b"/%d %d;" % (number, length)


async def test_a_chunked_body_is_whole_and_the_request_behind_it_waits() -> None:
    chunks = b"".join(b"%x\r\n" % size + b"x" * size + b"\r\n" for size in (1, 70_000, 300, 20_000)) + b"0\r\n\r\n"
    echo = Echo()
    echo.may_answer.set()
    async with connect(echo) as (reader, writer):
        writer.write(b"POST /0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        writer.write(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
        for number, length in enumerate([90_301, 0]):
            assert await asyncio.wait_for(read_response(reader), 30) == b"/%d %d;" % (number, length)


async def test_a_slow_response_ends_no_connection_on_which_a_head_has_been_sent_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_SECONDS", 0.2)
    echo, count = Echo(), 1000
    async with connect(echo) as (reader, writer):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(count)))
        await asyncio.sleep(1)
        echo.may_answer.set()
        for number in range(count):
            assert await asyncio.wait_for(read_response(reader), 30) == b"/%d 0;" % number


async def read_response(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
