"""A server that plays a script of OpenAI responses, valid or not."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
HANG = object()  # send nothing more
CUT = object()  # end the connection
PAUSE = object()  # send nothing for two seconds
KEEP_ALIVE = object()  # send comments forever

Line = dict[str, Any] | str | object


@dataclass
class ReceivedRequest:
    """A request that the server received."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedServer:
    """A server whose responses have `status`, and `lines` (the events of a stream) or `answer` (a JSON body).

    listing: its answer to GET models, if it is another one.

    `arrived` is set by a request, `disconnected` when its client has closed the connection.
    """

    url: str = ""
    status: int = 200
    retry_after: str | None = None
    answer: Any = None
    lines: list[Line] = field(default_factory=list)
    is_silent: bool = False
    date: str | None = None
    listing: Any = None
    requests: list[ReceivedRequest] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    handlers: set[asyncio.Task[Any]] = field(default_factory=set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if handler := asyncio.current_task():
            self.handlers.add(handler)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.requests.append(await _read(reader))
            self.arrived.set()
            if self.listing is not None and self.requests[-1].path == "/v1/models":
                await self._answer(writer, 200, self.listing)
            elif self.is_silent:
                await self._wait_for_disconnect(reader)
            elif self.lines:
                await self._stream(reader, writer)
            else:
                await self._answer(writer, self.status, self.answer)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        fields = {
            "Retry-After": self.retry_after,
            "Date": self.date,
            "Content-Length": len(body),
            "Connection": "close",
        }
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items() if value is not None)]
        writer.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body)
        await writer.drain()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head)
        for line in self.lines:
            if line is HANG:
                await writer.drain()
                await self._wait_for_disconnect(reader)
                return
            if line is PAUSE:
                await asyncio.sleep(2)
                continue
            if line is KEEP_ALIVE:
                await self._keep_alive(writer)
                return
            if line is CUT:
                return
            data = f"data: {line if isinstance(line, str) else json.dumps(line)}\n\n".encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _keep_alive(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"4\r\n: x\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        self.disconnected.set()

    async def _wait_for_disconnect(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1024):
                pass
        self.disconnected.set()


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(head[0].split(" ")[1], headers, json.loads(body or b"null"))


@contextlib.asynccontextmanager
async def scripted_server(*, port: int = 0, **script: Any) -> AsyncIterator[ScriptedServer]:
    """Run a server with this script, on a free port or on this one."""
    scripted = ScriptedServer(**script)
    server = await asyncio.start_server(scripted._serve, "127.0.0.1", port)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield scripted
    finally:
        server.close()
        await server.wait_closed()
        if scripted.handlers:
            await asyncio.wait(scripted.handlers, timeout=5)


def chat_chunk(text: str | None, reason: str | None = None, *, index: int = 0, **delta: Any) -> dict[str, Any]:
    """Return a chunk of a streamed chat."""
    return {"choices": [{"index": index, "delta": {"content": text} | delta, "finish_reason": reason}]}


def completion_chunk(text: str, reason: str | None = None) -> dict[str, Any]:
    """Return a chunk of a streamed completion."""
    return {"choices": [{"index": 0, "text": text, "finish_reason": reason}]}


COMPLETE_STREAM: list[Line] = [
    chat_chunk("", role="assistant"),
    chat_chunk("one"),
    chat_chunk(" two"),
    chat_chunk(None, "stop"),
    {"choices": [], "usage": USAGE},
    "[DONE]",
]
