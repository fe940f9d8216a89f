"""Circuit breaker: after consecutive failures, calls are refused at once for a while."""

import time
from collections.abc import Callable


class CircuitOpen(Exception):
    """The circuit is open after consecutive failures, so the call must not be made."""


class CircuitBreaker:
    """A breaker that is closed until `max_failures` consecutive calls fail.

    It is then open for `cooldown_seconds`. After that, one probe at a time may call, and its outcome closes or reopens
    the circuit. Every `admit` that returns must be followed by exactly one of `record_success`, `record_failure` and
    `record_abandoned`. The state belongs to one process and one event loop. `clock` is monotonic, in seconds.
    """

    def __init__(
        self, *, max_failures: int, cooldown_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_failures = max_failures
        self._cooldown_seconds = cooldown_seconds
        self._clock = clock
        self._failure_count = 0
        self._opened_at: float | None = None
        self._is_probing = False

    def admit(self) -> None:
        """Raise CircuitOpen unless a call may be made now."""
        if self._opened_at is None:
            return
        if self._is_probing or self._clock() - self._opened_at < self._cooldown_seconds:
            raise CircuitOpen
        self._is_probing = True

    def record_success(self) -> None:
        """Close the circuit."""
        self._failure_count = 0
        self._opened_at = None
        self._is_probing = False

    def record_failure(self) -> None:
        """Count a failure, and open the circuit after the last one allowed or a failed probe."""
        self._failure_count += 1
        if self._failure_count >= self._max_failures:
            self._opened_at = self._clock()
        self._is_probing = False

    def record_abandoned(self) -> None:
        """Forget a call that ended without an outcome, so that the next one may probe."""
        self._is_probing = False
