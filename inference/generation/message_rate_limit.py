"""The rate limit of the messages that a WebSocket client sends."""

import time

# Messages of all types.
MAX_MESSAGE_BURST = 200
MAX_MESSAGES_PER_SECOND = 50.0


class MessageRateLimit:
    """A token bucket with one token per message."""

    def __init__(self) -> None:
        self._tokens = float(MAX_MESSAGE_BURST)
        self._updated_at = time.monotonic()

    def take(self) -> bool:
        """Return whether another message is allowed, and count it."""
        now = time.monotonic()
        self._tokens = min(float(MAX_MESSAGE_BURST), self._tokens + (now - self._updated_at) * MAX_MESSAGES_PER_SECOND)
        self._updated_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
