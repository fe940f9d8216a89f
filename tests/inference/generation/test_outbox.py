"""The queue of messages to a client that does not read, and its overflow."""

import asyncio
from typing import Any

from inference.generation.outbox import MAX_UNSENT_BYTES, MESSAGE_OVERHEAD_BYTES, MessageOutbox


class Socket:
    """A client that reads nothing until it is resumed."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reads = asyncio.Event()

    async def send(self, frame: dict[str, Any]) -> None:
        await self.reads.wait()
        self.heard.put_nowait(frame)


async def test_s4_unsent_messages_are_counted_in_bytes():
    socket, overflows = Socket(), []
    outbox = MessageOutbox(socket.send, on_overflow=lambda: overflows.append(True))
    lamp = "💡" * 1000  # 4,000 bytes
    fitting = MAX_UNSENT_BYTES // (4000 + MESSAGE_OVERHEAD_BYTES)

    for _ in range(fitting):
        outbox.put_text(lamp)
    assert (outbox.closing, overflows) == (False, [])
    outbox.put_text(lamp)
    assert (outbox.closing, overflows) == (True, [True])

    socket.reads.set()
    await outbox.run()
    assert socket.heard.get_nowait() == {"type": "websocket.close", "code": 1013, "reason": "not reading"}
    assert socket.heard.empty()


async def test_sent_messages_are_not_counted():
    socket = Socket()
    socket.reads.set()
    outbox = MessageOutbox(socket.send, on_overflow=lambda: None)
    sending = asyncio.create_task(outbox.run())

    for _ in range(4):
        outbox.put_text("x" * (MAX_UNSENT_BYTES // 2))
        assert (await socket.heard.get())["type"] == "websocket.send"
    outbox.close(1000, "bye")
    await sending

    assert (await socket.heard.get())["type"] == "websocket.close"
