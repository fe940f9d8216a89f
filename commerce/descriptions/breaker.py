"""A circuit breaker: after failures in a row, calls are refused at once for a while instead of being waited for."""

import time
from collections.abc import Callable


class BreakerOpen(Exception):
    """The last calls failed and the rest is not over: this one is not made."""


class CircuitBreaker:
    """Closed until `failures` calls in a row failed; then open for `rest_s` seconds; then one call at a time is let
    through to see, and its outcome closes or opens the breaker again.

    Every `admit` that returns must be followed by exactly one of `succeeded`, `failed` and `abandoned`. The state is
    one process's, for use within one event loop. `clock` gives seconds that only grow.
    """

    def __init__(self, *, failures: int, rest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures = failures
        self._rest_s = rest_s
        self._clock = clock
        self._failed_in_a_row = 0
        self._opened_at: float | None = None
        self._probing = False

    def admit(self) -> None:
        """Return if a call may be made now. Raises BreakerOpen if not."""
        if self._opened_at is None:
            return
        if self._probing or self._clock() - self._opened_at < self._rest_s:
            raise BreakerOpen
        self._probing = True

    def succeeded(self) -> None:
        """The call went well: all is forgotten."""
        self._failed_in_a_row = 0
        self._opened_at = None
        self._probing = False

    def failed(self) -> None:
        """The call failed: the last straw, or a probe that says nothing has changed, opens the breaker."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= self._failures:
            self._opened_at = self._clock()
        self._probing = False

    def abandoned(self) -> None:
        """The call was given up before it told anything; the next one may probe."""
        self._probing = False
