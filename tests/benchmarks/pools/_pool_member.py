"""A server that plays a member of a pool: it keeps a prefix cache, and takes time for what is not in it.

It uses the standard library only, so that many start at once.
"""

import argparse
import asyncio
import json
import time
from email.utils import formatdate
from typing import Any

BLOCK_CHARACTERS, TOKEN_CHARACTERS = 64, 4
FIRST_SECONDS, PREFILL_SECONDS = 0.02, 0.00005  # of every request, and per token that is not cached


class Member:
    """The server. key: without it a request is 401. clock_seconds: how far its clock is off."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._cache: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                request_line, *fields = head.split("\r\n")
                headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                await self._answer(writer, request_line.split(" ")[1], headers, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: bytes) -> None:
        options = self._options
        if options.garbage:
            self._send(writer, 200, b"<html>Hello")
        elif options.key and headers.get("authorization") != f"Bearer {options.key}":
            self._send(writer, 401, json.dumps({"error": {"message": "wrong key"}}).encode())
        elif path == "/v1/models":
            self._send(writer, 200, json.dumps({"data": [{"id": options.model}]}).encode())
        elif (request := json.loads(body))["model"] != options.model:
            self._send(writer, 404, json.dumps({"error": {"message": "no such model"}}).encode())
        else:
            await self._generate(writer, request)
        await writer.drain()

    async def _generate(self, writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
        text = "".join(f"{message['role']}:{message['content']}\n" for message in request["messages"])
        blocks = list(prefix_hashes(text))
        cached = next((number for number, block in enumerate(blocks) if block not in self._cache), len(blocks))
        tokens, cached_tokens = len(text) // TOKEN_CHARACTERS, cached * BLOCK_CHARACTERS // TOKEN_CHARACTERS
        await asyncio.sleep(FIRST_SECONDS + PREFILL_SECONDS * (tokens - cached_tokens))
        self._cache.update(blocks)
        self._head(writer, 200, "text/event-stream", "Transfer-Encoding: chunked")
        answer = ""
        for number in range(request.get("max_tokens") or 16):
            if number:
                await asyncio.sleep(self._options.token_seconds)
            answer += f"w{number:02} "
            self._event(writer, {"choices": [{"index": 0, "delta": {"content": f"w{number:02} "}}]})
            await writer.drain()
        self._cache.update(prefix_hashes(f"{text}assistant:{answer}\n"))
        usage = {"prompt_tokens": tokens, "completion_tokens": number + 1}
        self._event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        details = {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
        self._event(writer, {"choices": [], "usage": usage | details})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def _send(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        self._head(writer, status, "application/json", f"Content-Length: {len(body)}")
        writer.write(body)

    def _head(self, writer: asyncio.StreamWriter, status: int, kind: str, length: str) -> None:
        date = formatdate(time.time() + self._options.clock_seconds, usegmt=True)
        writer.write(f"HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode())

    @staticmethod
    def _event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
        data = f"data: {json.dumps(event)}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def prefix_hashes(text: str) -> Any:
    """Yield a hash of the text up to the end of each complete block."""
    found = 0
    for start in range(0, len(text) - BLOCK_CHARACTERS + 1, BLOCK_CHARACTERS):
        found = hash((found, text[start : start + BLOCK_CHARACTERS]))
        yield found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--model", default="big")
    parser.add_argument("--key", default="")
    parser.add_argument("--token-seconds", type=float, default=0.1)
    parser.add_argument("--clock-seconds", type=float, default=0)
    parser.add_argument("--garbage", action="store_true")
    options = parser.parse_args()
    server = await asyncio.start_server(Member(options).serve, "127.0.0.1", options.port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
