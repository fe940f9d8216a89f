"""Backoff after failures: cooldowns of failed loads, and detection of crash loops. No process, no clock."""

from collections.abc import Hashable
from dataclasses import dataclass

from inference.engine.host.options import HostOptions

CRASH_WINDOW_SECONDS = 60.0
MAX_USELESS_CRASHES = 3
MAX_CRASHES = 15


@dataclass(frozen=True)
class _LoadFailure:
    content: Hashable
    count: int
    until: float


class Cooldowns:
    """Cooldowns of models whose load failed, or of replicas, doubling with each failure.

    content: everything that the outcome depends on. Other content, or a success, ends the cooldown.
    """

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._failures: dict[Hashable, _LoadFailure] = {}

    def record_failure(self, key: Hashable, content: Hashable, now: float) -> None:
        before = self._failures.get(key)
        count = before.count + 1 if before and before.content == content else 1
        seconds = min(self._options.max_cooldown, self._options.first_cooldown * 2 ** min(count - 1, 32))
        self._failures[key] = _LoadFailure(content, count, now + seconds)

    def reset(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def seconds_left(self, key: Hashable, content: Hashable, now: float) -> float:
        """Return the rest of the cooldown, or 0 if the model may be loaded."""
        failure = self._failures.get(key)
        return max(0.0, failure.until - now) if failure and failure.content == content else 0.0


class CrashLoop:
    """Crashes of one model.

    A loop is MAX_USELESS_CRASHES in a row without a finished request, each within a minute of the last, or MAX_CRASHES
    within a minute.
    """

    def __init__(self) -> None:
        self._crashes: list[float] = []
        self._useless = 0

    def record(self, now: float, *, was_useful: bool) -> bool:
        """Record a crash. Return whether it is a loop. was_useful: the process had finished a request."""
        is_first = not self._crashes or now - self._crashes[-1] > CRASH_WINDOW_SECONDS
        self._crashes = [at for at in self._crashes if now - at <= CRASH_WINDOW_SECONDS] + [now]
        self._useless = 0 if was_useful else 1 if is_first else self._useless + 1
        return self._useless >= MAX_USELESS_CRASHES or len(self._crashes) >= MAX_CRASHES
