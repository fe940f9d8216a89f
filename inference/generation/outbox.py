"""What one socket still has to be told: bounded, in order, never waited for by who writes into it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

MAX_UNSENT_BYTES = 1024 * 1024
MESSAGE_OVERHEAD_BYTES = 64  # what a waiting frame costs beside its text
OVERLOADED = 1013

Send = Callable[[Any], Awaitable[None]]
_encoder = msgspec.json.Encoder()


class MessageOutbox:
    """Frames go out through `send`, which waits while the peer does not read. A peer that leaves more than 1 MiB unread
    is closed with 1013, and `on_overflow` is called; who never reads on is cut off by the server below us."""

    def __init__(self, send: Send, *, on_overflow: Callable[[], None]) -> None:
        self._send = send
        self._on_overflow = on_overflow
        self._frames: deque[tuple[str, int]] = deque()  # with its bytes
        self._bytes = 0
        self._close: tuple[int, str] | None = None
        self._changed = asyncio.Event()

    @property
    def closing(self) -> bool:
        return self._close is not None

    def put(self, frame: msgspec.Struct) -> None:
        self.put_text(_encoder.encode(frame).decode())

    def put_text(self, text: str) -> None:
        """Nothing more is taken once the socket is closing. A frame that waits alone may be of any size."""
        if self._close:
            return
        size = len(text.encode()) + MESSAGE_OVERHEAD_BYTES
        if self._frames and self._bytes + size > MAX_UNSENT_BYTES:
            self._frames.clear()
            self.close(OVERLOADED, "not reading")
            self._on_overflow()
            return
        self._frames.append((text, size))
        self._bytes += size
        self._changed.set()

    def close(self, code: int, reason: str) -> None:
        """Close the socket after what waits; the first reason counts."""
        self._close = self._close or (code, reason)
        self._changed.set()

    async def run(self) -> None:
        """Sends until the socket is closed. Raises what `send` raises once the peer is gone."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._frames:
                text, size = self._frames.popleft()
                await self._send({"type": "websocket.send", "text": text})
                self._bytes -= size
            if self._close:
                code, reason = self._close
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                return
