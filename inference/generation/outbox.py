"""The bounded queue of messages to one WebSocket client, which nobody who adds to it waits for."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

MAX_UNSENT_BYTES = 1024 * 1024
MESSAGE_OVERHEAD_BYTES = 64  # of a queued message beside its text
OVERLOADED = 1013

Send = Callable[[Any], Awaitable[None]]
_encoder = msgspec.json.Encoder()


class MessageOutbox:
    """Sends messages in order through `send`, which waits while the client does not read.

    With more than MAX_UNSENT_BYTES unsent the connection is closed with 1013 and `on_overflow` is called. The server
    disconnects clients that stay stalled.
    """

    def __init__(self, send: Send, *, on_overflow: Callable[[], None]) -> None:
        self._send = send
        self._on_overflow = on_overflow
        self._messages: deque[tuple[str, int]] = deque()  # text and bytes
        self._unsent_bytes = 0
        self._close: tuple[int, str] | None = None
        self._changed = asyncio.Event()

    @property
    def closing(self) -> bool:
        return self._close is not None

    def put(self, message: msgspec.Struct) -> None:
        self.put_text(_encoder.encode(message).decode())

    def put_text(self, text: str) -> None:
        """Queue a message, unless the connection is closing. A message of any size is queued if no other waits."""
        if self._close:
            return
        size = len(text.encode()) + MESSAGE_OVERHEAD_BYTES
        if self._messages and self._unsent_bytes + size > MAX_UNSENT_BYTES:
            self._messages.clear()
            self.close(OVERLOADED, "not reading")
            self._on_overflow()
            return
        self._messages.append((text, size))
        self._unsent_bytes += size
        self._changed.set()

    def close(self, code: int, reason: str) -> None:
        """Close the connection after the queued messages; the first call decides the code."""
        self._close = self._close or (code, reason)
        self._changed.set()

    async def run(self) -> None:
        """Send messages until the connection is closed. Raise the error of `send` once the client is gone."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._messages:
                text, size = self._messages.popleft()
                await self._send({"type": "websocket.send", "text": text})
                self._unsent_bytes -= size
            if self._close:
                code, reason = self._close
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                return
