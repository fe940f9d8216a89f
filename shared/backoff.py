"""The policy of pauses after failures."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Pauses that double with each failure in a row.

    jitter: the share by which a pause varies, so that those who failed together do not come back together.
    """

    first_seconds: float
    max_seconds: float
    jitter: float = 0.0

    def seconds(self, failure_count: int, *, at_least: float = 0.0) -> float:
        """Return the pause after this many failures, at least 1. at_least: what the server asked for."""
        delay = max(at_least, self.first_seconds * 2.0 ** min(failure_count - 1, 32))
        return min(delay, self.max_seconds) * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 no secret
