"""A server that speaks OpenAI's protocol as it is told to, also wrongly: the second server that no real one is."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
HANG = object()  # say nothing more
CUT = object()  # end the connection
PAUSE = object()  # say nothing for two seconds
KEEP_ALIVE = object()  # say for ever that the connection lives

Line = dict[str, Any] | str | object


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Scripted:
    """`status`, `lines` (a stream's data, each sent by itself), or else `answer` (a whole JSON body) come back."""

    url: str = ""
    status: int = 200
    retry_after: str | None = None
    answer: Any = None
    lines: list[Line] = field(default_factory=list)
    silent: bool = False
    asked: list[Asked] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.asked.append(await _read(reader))
            self.came.set()
            if self.silent:
                await self._wait_until_left(reader)
            elif self.lines:
                await self._stream(reader, writer)
            else:
                body = json.dumps(self.answer).encode()
                retry = f"Retry-After: {self.retry_after}\r\n" if self.retry_after else ""
                head = f"HTTP/1.1 {self.status} X\r\n{retry}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        writer.close()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head)
        for line in self.lines:
            if line is HANG:
                await writer.drain()
                await self._wait_until_left(reader)
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
        self.left.set()

    async def _wait_until_left(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1024):
                pass
        self.left.set()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(head[0].split(" ")[1], headers, json.loads(body or b"null"))


@contextlib.asynccontextmanager
async def scripted(**script: Any) -> AsyncIterator[Scripted]:
    """A running server."""
    served = Scripted(**script)
    server = await asyncio.start_server(served._serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield served
    finally:
        server.close()
        await server.wait_closed()


def chat_piece(text: str | None, reason: str | None = None, *, index: int = 0, **delta: Any) -> dict[str, Any]:
    """A chunk of a streamed chat."""
    return {"choices": [{"index": index, "delta": {"content": text} | delta, "finish_reason": reason}]}


def text_piece(text: str, reason: str | None = None) -> dict[str, Any]:
    """A chunk of a streamed completion."""
    return {"choices": [{"index": 0, "text": text, "finish_reason": reason}]}


WHOLE_STREAM: list[Line] = [
    chat_piece("", role="assistant"),
    chat_piece("one"),
    chat_piece(" two"),
    chat_piece(None, "stop"),
    {"choices": [], "usage": USAGE},
    "[DONE]",
]
