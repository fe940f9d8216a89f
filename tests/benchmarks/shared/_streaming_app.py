"""A bare ASGI application for comparing servers: it streams, and it reads no request body."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

BIG_CHUNK = b"x" * 65536
EVENT = b'data: {"token": " word", "index": 1}\n\n'


async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Respond by path: `/flood/N` N MiB, `/events/N` N events, `/slow/N` N events 0.2 s apart, else "ok"."""
    if scope["type"] == "lifespan":
        return
    what, _, count = scope["path"].strip("/").partition("/")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    if what == "flood":
        for _ in range(int(count) * 16):
            await send({"type": "http.response.body", "body": BIG_CHUNK, "more_body": True})
    elif what in ("events", "slow"):
        for _ in range(int(count)):
            await send({"type": "http.response.body", "body": EVENT, "more_body": True})
            if what == "slow":
                await asyncio.sleep(0.2)
    await send({"type": "http.response.body", "body": b"ok", "more_body": False})
