"""Server-sent events of an engine's server, parsed in C: what a token costs here is taken from the engine's cores."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, cast

import httptools
import msgspec

from inference.engine.errors import InferenceFailed

MAX_EVENT_BYTES = 4 * 2**20


class EventStream(asyncio.Protocol):
    """A POST of JSON on a connection of its own, and the events of its response."""

    def __init__(self, path: str, key: str, body: dict[str, Any]) -> None:
        content = msgspec.json.encode(body)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._request = head.encode() + content
        self._parser = httptools.HttpResponseParser(self)
        self._rest = b""
        self._events: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._is_complete = False
        self._failure: Exception | None = None
        self._transport: asyncio.Transport

    async def events(self, *, seconds: float) -> AsyncIterator[bytes]:
        """Yield the data of each event, as many seconds after the last one at most. Raise InferenceFailed."""
        while True:
            while self._events:
                yield self._events.popleft()
            if self._failure:
                raise self._failure
            if self._is_complete:
                return
            self._arrived.clear()
            async with asyncio.timeout(seconds):
                await self._arrived.wait()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(InferenceFailed(f"its response is not HTTP: {type(error).__name__}"))
        self._arrived.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_complete = True  # a response without a length ends so
        self._arrived.set()

    def on_headers_complete(self) -> None:
        if (status := self._parser.get_status_code()) != 200:
            self._fail(InferenceFailed(f"it refused the request with status {status}"))

    def on_body(self, body: bytes) -> None:
        *lines, self._rest = (self._rest + body).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            self._fail(InferenceFailed(f"an event of more than {MAX_EVENT_BYTES} bytes"))
        self._events.extend(line[5:].strip() for line in lines if line.startswith(b"data:"))

    def on_message_complete(self) -> None:
        self._is_complete = True

    def _fail(self, failure: Exception) -> None:
        self._failure = self._failure or failure
        self._transport.abort()
