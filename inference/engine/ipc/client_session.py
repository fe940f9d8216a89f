"""The session of one client in a model process."""

import asyncio
import time

from inference.engine.ipc.channel import MAX_FRAME_BYTES, Channel
from inference.engine.ipc.frames import Frame

# A client that does not read is disconnected: after STALL_SECONDS with STALL_BYTES unsent, or above MAX_UNSENT_BYTES.
STALL_BYTES = 2**20
STALL_SECONDS = 30.0
MAX_UNSENT_BYTES = MAX_FRAME_BYTES + STALL_BYTES


class ClientSession:
    """One connection. jobs: running calls other than generations, cancelled when the client disconnects."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel = channel
        self.number = number
        self.jobs: dict[int, asyncio.Task[None]] = {}
        self.gone = asyncio.Event()
        self._stalled_at: float | None = None

    def send(self, frame: Frame) -> None:
        """Send a frame without waiting. Disconnect a client that does not read."""
        self.channel.send(frame)
        now = time.monotonic()
        if self.channel.unsent_bytes < STALL_BYTES:
            self._stalled_at = None
        elif self._stalled_at is None:
            self._stalled_at = now
        elif now - self._stalled_at > STALL_SECONDS or self.channel.unsent_bytes > MAX_UNSENT_BYTES:
            self.channel.abort()
