"""Spacing of 429 responses, so that a client that goes on after them costs others little.

Most clients wait as Retry-After says. From one that does not, each refused request costs the server as much as it takes
to see that the limit is reached: with many connections, all of a processor.
"""

import time
from collections import OrderedDict

BURST = 500  # refusals that one address gets without delay
PER_SECOND = 50.0  # and then, over all its connections
MAX_WAIT_SECONDS = 10.0
MAX_ADDRESSES = 10_000


class RefusalPacer:
    """Waits before the refusals of each address, by the generic cell rate algorithm. Not thread-safe."""

    def __init__(self) -> None:
        self._due: OrderedDict[str, float] = OrderedDict()  # when the next refusal would be due at PER_SECOND

    def wait_seconds(self, address: str) -> float:
        """Count a refusal; return for how long to hold it back."""
        now, ahead = time.monotonic(), BURST / PER_SECOND
        due = max(self._due.pop(address, now), now) + 1 / PER_SECOND
        self._due[address] = min(due, now + ahead + MAX_WAIT_SECONDS)
        if len(self._due) > MAX_ADDRESSES:
            self._due.popitem(last=False)
        return max(0.0, self._due[address] - now - ahead)


pacer = RefusalPacer()
