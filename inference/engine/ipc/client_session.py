"""One client as a model process sees it."""

import asyncio
import time

from inference.engine.ipc.channel import MAX_FRAME_BYTES, Channel
from inference.engine.ipc.frames import Frame

# A client that does not read is cut off: when so much is unsent for so long, or more than the largest answer is.
STALL_BYTES = 2**20
STALL_SECONDS = 30.0
MAX_UNSENT_BYTES = MAX_FRAME_BYTES + STALL_BYTES


class Peer:
    """One connection. `jobs` are its calls beside generation: they are dropped when it leaves."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel = channel
        self.number = number
        self.jobs: dict[int, asyncio.Task[None]] = {}
        self.gone = asyncio.Event()
        self._stalled_at: float | None = None

    def send(self, frame: Frame) -> None:
        self.channel.send(frame)
        now = time.monotonic()
        if self.channel.unsent_bytes < STALL_BYTES:
            self._stalled_at = None
        elif self._stalled_at is None:
            self._stalled_at = now
        elif now - self._stalled_at > STALL_SECONDS or self.channel.unsent_bytes > MAX_UNSENT_BYTES:
            self.channel.abort()
