"""How many messages a socket may send."""

import time

# Of any kind: so many at once, and so many a second after that.
MESSAGES_AT_ONCE = 200
MESSAGES_A_SECOND = 50.0


class Allowance:
    """How many may still come: filled up as time passes."""

    def __init__(self) -> None:
        self._left = float(MESSAGES_AT_ONCE)
        self._at = time.monotonic()

    def take(self) -> bool:
        """Whether one more may come."""
        now = time.monotonic()
        self._left = min(float(MESSAGES_AT_ONCE), self._left + (now - self._at) * MESSAGES_A_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
