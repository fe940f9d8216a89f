"""What follows from failures: how long a model is left alone, and when crashes are a loop. Plain rules, no process."""

from collections.abc import Hashable
from dataclasses import dataclass

from inference.engine.host.options import HostOptions

CRASH_WINDOW_SECONDS = 60.0
MAX_USELESS_CRASHES = 3
MAX_CRASHES = 15


@dataclass(frozen=True)
class _Failure:
    what: Hashable
    count: int
    until: float


class CoolDowns:
    """Models that failed are left alone for a while, longer each time. Another folder content, other options or a
    success end that at once: `what` is all that the outcome depends on."""

    def __init__(self, policy: HostOptions) -> None:
        self._policy = policy
        self._failures: dict[str, _Failure] = {}

    def note_failure(self, model_id: str, what: Hashable, now: float) -> None:
        before = self._failures.get(model_id)
        count = before.count + 1 if before and before.what == what else 1
        longest = self._policy.longest_cool_down
        seconds = min(longest, self._policy.first_cool_down * 2 ** min(count - 1, 32))
        self._failures[model_id] = _Failure(what, count, now + seconds)

    def note_success(self, model_id: str) -> None:
        self._failures.pop(model_id, None)

    def seconds_left(self, model_id: str, what: Hashable, now: float) -> float:
        """0 when it may be tried."""
        failure = self._failures.get(model_id)
        return max(0.0, failure.until - now) if failure and failure.what == what else 0.0


class CrashLoop:
    """Crashes of one model. A loop: three within a minute of each other without a request finished in between, or
    fifteen in a minute whatever was finished."""

    def __init__(self) -> None:
        self._crashes: list[float] = []
        self._useless = 0

    def note(self, now: float, *, was_useful: bool) -> bool:
        """Whether this crash makes it a loop. was_useful: the process had finished a request."""
        is_first = not self._crashes or now - self._crashes[-1] > CRASH_WINDOW_SECONDS
        self._crashes = [at for at in self._crashes if now - at <= CRASH_WINDOW_SECONDS] + [now]
        self._useless = 0 if was_useful else 1 if is_first else self._useless + 1
        return self._useless >= MAX_USELESS_CRASHES or len(self._crashes) >= MAX_CRASHES
