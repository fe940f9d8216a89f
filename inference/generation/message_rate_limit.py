"""How many messages a socket may send."""

import time

# Of any kind: so many at once, and so many a second after that.
MAX_MESSAGE_BURST = 200
MAX_MESSAGES_PER_SECOND = 50.0


class MessageRateLimit:
    """How many may still come: filled up as time passes."""

    def __init__(self) -> None:
        self._left = float(MAX_MESSAGE_BURST)
        self._at = time.monotonic()

    def take(self) -> bool:
        """Whether one more may come."""
        now = time.monotonic()
        self._left = min(float(MAX_MESSAGE_BURST), self._left + (now - self._at) * MAX_MESSAGES_PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
