"""A token budget in one process, used where there is no Redis and while it is down."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from inference.usage.scopes import LimitScope
from inference.usage.token_budget.budget import (
    LEASE_SECONDS,
    WINDOW_SECONDS,
    BudgetRefusal,
    BudgetReservation,
    BudgetSettlement,
    BudgetState,
)


@dataclass
class _ScopeEntries:
    """A scope's reservations: tokens and arrival time of each, and the lease ends of those that run."""

    entries: dict[str, tuple[int, float]] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(tokens for tokens, _ in self.entries.values())

    def settle(self, reservation_id: str, tokens: int) -> None:
        self.running.pop(reservation_id, None)
        if reservation_id not in self.entries:
            return
        _, arrived_at = self.entries.pop(reservation_id)
        if tokens:
            self.entries[reservation_id] = (tokens, arrived_at)


class LocalTokenBudget:
    """A thread-safe `TokenBudget`. `clock` returns seconds."""

    SWEEP_INTERVAL = 1000  # reservations

    def __init__(
        self,
        *,
        window_seconds: float = WINDOW_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window_seconds = window_seconds
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._scopes: dict[str, _ScopeEntries] = {}
        self._until_sweep = self.SWEEP_INTERVAL

    def reserve(self, reservation_id: str, scopes: Sequence[LimitScope], tokens: int) -> BudgetRefusal | None:
        with self._lock:
            now = self._clock()
            self._sweep(now)
            self._drop_expired(now, [scope.name for scope in scopes])
            for scope in scopes:
                if refusal := self._refusal(scope, min(tokens, scope.tokens_per_minute), now):
                    return refusal
            for scope in scopes:
                counted = self._scopes.setdefault(scope.name, _ScopeEntries())
                counted.entries[reservation_id] = (min(tokens, scope.tokens_per_minute), now)
                counted.running[reservation_id] = now + self._lease_seconds
            return None

    def settle(self, settlements: Sequence[BudgetSettlement]) -> None:
        with self._lock:
            for settlement in settlements:
                for name in settlement.reservation.scope_names:
                    if counted := self._scopes.get(name):
                        counted.settle(settlement.reservation.id, settlement.tokens)

    def renew(self, reservations: Sequence[BudgetReservation]) -> None:
        with self._lock:
            now = self._clock()
            for reservation in reservations:
                self._drop_expired(now, reservation.scope_names)
                for name in reservation.scope_names:
                    counted = self._scopes.get(name)
                    if counted and reservation.id in counted.running:
                        counted.running[reservation.id] = now + self._lease_seconds

    def state(self, scopes: Sequence[LimitScope]) -> list[BudgetState]:
        with self._lock:
            now = self._clock()
            self._drop_expired(now, [scope.name for scope in scopes])
            return [self._state(self._scopes.get(scope.name, _ScopeEntries()), now) for scope in scopes]

    def _refusal(self, scope: LimitScope, tokens: int, now: float) -> BudgetRefusal | None:
        counted = self._scopes.get(scope.name, _ScopeEntries())
        if len(counted.running) >= scope.max_concurrency:
            return BudgetRefusal(scope, False, len(counted.running), 1.0)
        surplus = counted.tokens + tokens - scope.tokens_per_minute
        if surplus <= 0 and scope.tokens_per_minute > 0:
            return None
        return BudgetRefusal(scope, True, counted.tokens, self._wait_seconds(counted, surplus, now))

    def _wait_seconds(self, counted: _ScopeEntries, surplus: int, now: float) -> float:
        for tokens, arrived_at in sorted(counted.entries.values(), key=lambda entry: entry[1]):
            surplus -= tokens
            if surplus <= 0:
                return max(1.0, arrived_at + self._window_seconds - now)
        return self._window_seconds

    def _state(self, counted: _ScopeEntries, now: float) -> BudgetState:
        oldest = min((arrived_at for _, arrived_at in counted.entries.values()), default=now - self._window_seconds)
        reset_seconds = max(0.0, oldest + self._window_seconds - now)
        return BudgetState(counted.tokens, len(counted.running), reset_seconds)

    def _sweep(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._drop_expired(now, list(self._scopes))
            self._until_sweep = max(self.SWEEP_INTERVAL, len(self._scopes))

    def _drop_expired(self, now: float, scope_names: Iterable[str]) -> None:
        """Drop expired leases, and ended reservations that arrived before the window."""
        for name in scope_names:
            if counted := self._scopes.get(name):
                for reservation_id in [one for one, lease_end in counted.running.items() if lease_end <= now]:
                    del counted.running[reservation_id]
                for reservation_id, (_, arrived_at) in list(counted.entries.items()):
                    if arrived_at <= now - self._window_seconds and reservation_id not in counted.running:
                        del counted.entries[reservation_id]
                if not counted.entries and not counted.running:
                    del self._scopes[name]


local_budget = LocalTokenBudget()
