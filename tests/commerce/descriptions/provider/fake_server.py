"""A fake text provider on a real socket, with a choice of misbehaviors."""

import asyncio
import json
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

Behavior = Callable[["ProviderServer", asyncio.StreamWriter], Awaitable[None]]
PROVIDER_SECRET = "a word of the provider's own"


class ProviderServer:
    """An HTTP/1.1 server on 127.0.0.1. The first segment of the path names its behavior.

    The segment `selected` stands for the attribute of that name. `requests` are the received bodies, and `headers` the
    received heads.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.selected = "good"
        self._request_received = threading.Condition()
        self._disconnects = threading.Semaphore(0)
        self.texts = ["The Velmo lamp glows."]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, behavior: str) -> str:
        return f"http://127.0.0.1:{self.port}/{behavior}/v1"

    def wait_for_requests(self, times: int) -> None:
        """Wait until this many requests were received in total."""
        with self._request_received:
            assert self._request_received.wait_for(lambda: len(self.requests) >= times, timeout=30)

    async def client_disconnected(self) -> bool:
        """Return whether another client disconnects early within ten seconds."""
        return await asyncio.to_thread(self._disconnects.acquire, timeout=10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # the client left before its request was complete
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))[15:])
        body = json.loads(await reader.readexactly(length))
        self.headers.append(head)
        with self._request_received:
            self.requests.append(body)
            self._request_received.notify_all()
        name = head.split("/")[1]
        name = self.selected if name == "selected" else name
        if name in RESPONSES:
            writer.write(RESPONSES[name])
            return
        working = asyncio.ensure_future(BEHAVIORS[name](self, writer))
        disconnect = asyncio.ensure_future(reader.read())
        await asyncio.wait({working, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            self._disconnects.release()
        working.cancel()
        disconnect.cancel()
        await asyncio.gather(working, disconnect, return_exceptions=True)


def http_response(status: str, body: bytes, **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def chunk(text: str | None, finish_reason: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {} if text is None else {"content": text}, "finish_reason": finish_reason}
    data = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(data)}\n\n".encode()


async def _pieces(text: str) -> AsyncIterator[str]:
    for word in text.split(" "):
        yield f" {word}"
        await asyncio.sleep(0)


async def good(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD)
    async for piece in _pieces(server.texts[min(len(server.requests), len(server.texts)) - 1]):
        writer.write(chunk(piece))
        await writer.drain()
    writer.write(chunk(None, "stop") + b"data: [DONE]\n\n")
    await writer.drain()


async def slow(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1)
    await good(server, writer)


async def several(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    """Send all texts of the server as choices of one response. The last one is cut off."""
    writer.write(STREAM_HEAD)
    for index, text in enumerate(server.texts):
        writer.write(chunk(text, index=index))
    for index in range(len(server.texts)):
        is_cut = index and index == len(server.texts) - 1
        writer.write(chunk(None, "length" if is_cut else "stop", index=index))
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()


async def several_endless(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    """Send one text, and another one that does not end."""
    writer.write(STREAM_HEAD + chunk(server.texts[0]) + chunk(None, "stop"))
    while True:
        writer.write(chunk(" word", index=1))
        await writer.drain()
        await asyncio.sleep(0.01)


async def one_only(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    if server.requests[-1].get("n", 1) > 1:
        writer.write(RESPONSES["refusal_400"])
    else:
        await good(server, writer)


async def echo(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    """Answer with the last message and with the whole request."""
    writer.write(
        STREAM_HEAD + chunk(json.dumps(server.requests[-1])) + chunk(server.requests[-1]["messages"][-1]["content"])
    )
    writer.write(chunk(None, "stop") + b"data: [DONE]\n\n")
    await writer.drain()


async def endless_text(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD)
    while True:
        writer.write(chunk(" word"))
        await writer.drain()
        await asyncio.sleep(0.01)


async def silent(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    for byte in STREAM_HEAD + b": nothing yet\n" * 1000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.02)


async def flaky(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    if len(server.requests) % 2:
        writer.write(http_response("503 Later", b"{}", Retry_After="0"))
    else:
        await good(server, writer)


async def endless_line(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD + b"data: ")
    for _ in range(1024):
        writer.write(b"x" * 1024 * 1024)
        await writer.drain()


async def compressed(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    packer = zlib.compressobj(wbits=31)
    body = b"".join(packer.compress(b"x" * 1024 * 1024) for _ in range(200)) + packer.flush()
    writer.write(http_response("200 OK", body, Content_Type="text/event-stream", Content_Encoding="gzip"))


async def redirect(server: ProviderServer, writer: asyncio.StreamWriter) -> None:
    writer.write(http_response("307 Over there", b"", Location=server.url("good") + "/chat/completions"))


def refusal(status: str, message: str) -> bytes:
    return http_response(status, json.dumps({"error": {"message": message}}).encode(), Content_Type="application/json")


# Behaviors that write the same bytes to every client.
RESPONSES = {
    "error_500": refusal("500 Oops", PROVIDER_SECRET),
    "refusal_400": refusal("400 No", "too long"),
    "refusal_422": refusal("422 No", "not this"),
    "unknown_model_404": refusal("404 No", "no model"),
    "unauthorized": refusal("401 Who", "bad key sk-canary"),
    "garbage": http_response("200 OK", b"<html>" + b"\xff\x00" * 500, Content_Type="text/html"),
    "wrong_shapes": STREAM_HEAD + b'data: {"choices": "none"}\n\ndata: [1, 2]\n\n',
    "broken_json": STREAM_HEAD + b'data: {"choices"\n\n',
    "no_http": b"SSH-2.0-OpenSSH_9.2\r\n",
    "error_event": STREAM_HEAD + chunk(" The") + f'data: {{"error": {{"message": "{PROVIDER_SECRET}"}}}}\n\n'.encode(),
    "truncated": STREAM_HEAD + chunk(" The Velmo"),
    "wordless": STREAM_HEAD + chunk(" ") + chunk(None, "stop") + b"data: [DONE]\n\n",
    "filtered": STREAM_HEAD + chunk(" The Velmo") + chunk(None, "content_filter") + b"data: [DONE]\n\n",
}
BEHAVIORS: dict[str, Behavior] = {
    behavior.__name__: behavior
    for behavior in (
        good, slow, several, several_endless, one_only, echo, endless_text, silent, drip, flaky, endless_line,
        compressed, redirect,
    )
}  # fmt: skip
