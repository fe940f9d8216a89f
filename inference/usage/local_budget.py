"""The twin of `budgets.RedisBudget` in one process: where there is no Redis, and while it is away."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from inference.usage.budgets import LEASE_S, WINDOW_S, Held, Refusal, Settlement, State
from inference.usage.limits import Scope


@dataclass
class _Counted:
    """What one scope has: of each reservation its tokens and when it came, and of those that run their lease's end."""

    entries: dict[str, tuple[int, float]] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(tokens for tokens, _ in self.entries.values())


class LocalBudget:
    """Safe to use from many threads. `clock` counts seconds."""

    SWEEP_EVERY = 1000  # reservations

    def __init__(
        self, *, window_s: float = WINDOW_S, lease_s: float = LEASE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._window_s = window_s
        self._lease_s = lease_s
        self._clock = clock
        self._lock = threading.Lock()
        self._scopes: dict[str, _Counted] = {}
        self._until_sweep = self.SWEEP_EVERY

    def reserve(self, reservation: str, scopes: Sequence[Scope], tokens: int) -> Refusal | None:
        with self._lock:
            now = self._clock()
            self._sweep(now)
            self._forget(now, [scope.name for scope in scopes])
            for scope in scopes:
                if refusal := self._refusal(scope, min(tokens, scope.tokens), now):
                    return refusal
            for scope in scopes:
                counted = self._scopes.setdefault(scope.name, _Counted())
                counted.entries[reservation] = (min(tokens, scope.tokens), now)
                counted.running[reservation] = now + self._lease_s
            return None

    def settle(self, settled: Sequence[Settlement]) -> None:
        with self._lock:
            for one in settled:
                for name in one.held.names:
                    if counted := self._scopes.get(name):
                        _settle(counted, one.held.reservation, one.tokens)

    def renew(self, held: Sequence[Held]) -> None:
        with self._lock:
            now = self._clock()
            for one in held:
                self._forget(now, one.names)
                for name in one.names:
                    counted = self._scopes.get(name)
                    if counted and one.reservation in counted.running:
                        counted.running[one.reservation] = now + self._lease_s

    def state(self, scopes: Sequence[Scope]) -> list[State]:
        with self._lock:
            now = self._clock()
            self._forget(now, [scope.name for scope in scopes])
            return [self._state(self._scopes.get(scope.name, _Counted()), now) for scope in scopes]

    def _refusal(self, scope: Scope, tokens: int, now: float) -> Refusal | None:
        counted = self._scopes.get(scope.name, _Counted())
        if len(counted.running) >= scope.concurrency:
            return Refusal(scope, False, len(counted.running), 1.0)
        surplus = counted.tokens + tokens - scope.tokens
        if surplus <= 0 and scope.tokens > 0:
            return None
        return Refusal(scope, True, counted.tokens, self._wait(counted, surplus, now))

    def _wait(self, counted: _Counted, surplus: int, now: float) -> float:
        for tokens, came_at in sorted(counted.entries.values(), key=lambda entry: entry[1]):
            surplus -= tokens
            if surplus <= 0:
                return max(1.0, came_at + self._window_s - now)
        return self._window_s

    def _state(self, counted: _Counted, now: float) -> State:
        oldest = min((came_at for _, came_at in counted.entries.values()), default=now - self._window_s)
        return State(counted.tokens, len(counted.running), max(0.0, oldest + self._window_s - now))

    def _sweep(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._forget(now, list(self._scopes))
            self._until_sweep = max(self.SWEEP_EVERY, len(self._scopes))

    def _forget(self, now: float, names: Iterable[str]) -> None:
        """Drops leases that ran out, and what came before the window and runs no more."""
        for name in names:
            if counted := self._scopes.get(name):
                for reservation in [one for one, until in counted.running.items() if until <= now]:
                    del counted.running[reservation]
                for reservation, (_, came_at) in list(counted.entries.items()):
                    if came_at <= now - self._window_s and reservation not in counted.running:
                        del counted.entries[reservation]
                if not counted.entries and not counted.running:
                    del self._scopes[name]


def _settle(counted: _Counted, reservation: str, tokens: int) -> None:
    counted.running.pop(reservation, None)
    if reservation not in counted.entries:
        return
    _, came_at = counted.entries.pop(reservation)
    if tokens:
        counted.entries[reservation] = (tokens, came_at)


local_budget = LocalBudget()
