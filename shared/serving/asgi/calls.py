"""Calls in the threads of requests, which know how long they have computed."""

import sys
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LONG_SECONDS = 0.03  # of a processor that a call has computed when it is a long one
SAMPLE_SECONDS = 0.5  # in which a call that computes nothing waits for something else
MAX_BLOCKED_SECONDS = 10.0  # in which a call that computes nothing may wait for those of other clients

P = ParamSpec("P")
R = TypeVar("R")


class Call:
    """A call in a thread, which knows how long it has computed there. On macOS it knows when it ends.

    address: where it comes from. is_expected_long: its client has just computed much.
    """

    def __init__(self, *, address: str = "", is_expected_long: bool = False) -> None:
        self.address = address
        self.started_at = self._sampled_at = time.monotonic()
        self._is_expected_long = is_expected_long
        self._sampled_seconds = 0.0
        self._is_computing = True
        self._clock: int | None = None  # of the thread, while the call runs
        self._began_at = 0.0
        self._computed_seconds = 0.0

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, in this thread."""
        self._began_at = time.thread_time()
        if sys.platform != "darwin":
            self._clock = time.pthread_getcpuclockid(threading.get_ident())
        try:
            return function(*args, **kwargs)
        finally:
            self._computed_seconds = time.thread_time() - self._began_at
            self._clock = None

    @property
    def computed_seconds(self) -> float:
        if (clock := self._clock) is not None:
            try:
                return time.clock_gettime(clock) - self._began_at
            except OSError:  # the thread has ended meanwhile
                pass
        return self._computed_seconds

    @property
    def is_computing(self) -> bool:
        """Whether it has computed lately, or has only begun. It may wait for another process instead."""
        now = time.monotonic()
        if now - self._sampled_at >= SAMPLE_SECONDS:
            computed = self.computed_seconds
            self._is_computing = computed > self._sampled_seconds
            self._sampled_at, self._sampled_seconds = now, computed
        return self._is_computing

    @property
    def is_active(self) -> bool:
        """Whether its client counts as active. A call may wait for the database connection of another client's."""
        return self.is_computing or time.monotonic() < self.started_at + MAX_BLOCKED_SECONDS

    @property
    def is_long(self) -> bool:
        return (self._is_expected_long or self.computed_seconds > LONG_SECONDS) and self.is_computing
