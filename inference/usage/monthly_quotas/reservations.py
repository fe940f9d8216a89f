"""Reservations against monthly quotas: tokens of admitted requests that are not in the ledger yet.

A request is admitted while the ledger's tokens, all reservations and its own tokens fit the quota together. The ledger
is read before the reservation, and a reserved amount may move into the ledger in between. Each such move gives the
quota a new `epoch`, and a ledger reading is valid only in the epoch that it was made in.

A reservation has a lease. When a process dies, its reservations expire, and their usage was never written.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from inference.usage.monthly_quotas.quotas import MonthlyQuota
from inference.usage.token_budget import LEASE_SECONDS

MAX_QUOTA_COUNT = 10_000  # above it, quotas without reservations are dropped
NO_EPOCH = ""  # equals no epoch


@dataclass(frozen=True)
class LedgerReading:
    """The tokens that the ledger had of a quota, and the epoch in which it was read."""

    epoch: str
    tokens: int


@dataclass(frozen=True)
class StaleReadings:
    """The reason why nothing was reserved: a reading is of another epoch. `epochs` are the current ones."""

    epochs: list[str]


@dataclass(frozen=True)
class QuotaRefusal:
    """The reason why nothing was reserved: the quota does not have enough tokens left beside the used ones."""

    quota: MonthlyQuota
    used: int


class QuotaReservationStore(Protocol):
    """Reservations by id."""

    def reserve(
        self, reservation_id: str, quotas: Sequence[MonthlyQuota], readings: Sequence[LedgerReading], tokens: int
    ) -> StaleReadings | QuotaRefusal | None:
        """Reserve tokens in all quotas and return None, or in none and return the reason."""

    def renew(self, reservation_id: str, quotas: Sequence[MonthlyQuota]) -> None: ...

    def release(self, reservation_id: str, quotas: Sequence[MonthlyQuota]) -> None:
        """Drop a reservation whose usage is in the ledger, or whose request used nothing."""


@dataclass
class _QuotaReservations:
    epoch: int
    tokens: dict[str, int] = field(default_factory=dict)
    lease_ends: dict[str, float] = field(default_factory=dict)


class LocalReservationStore:
    """A thread-safe store in one process, used where there is no Redis and while it is down."""

    def __init__(self, *, lease_seconds: float = LEASE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._epochs = count(1)
        self._quotas: dict[str, _QuotaReservations] = {}

    def reserve(
        self, reservation_id: str, quotas: Sequence[MonthlyQuota], readings: Sequence[LedgerReading], tokens: int
    ) -> StaleReadings | QuotaRefusal | None:
        with self._lock:
            now = self._clock()
            reserved = [self._reservations(quota, now) for quota in quotas]
            epochs = [str(one.epoch) for one in reserved]
            if epochs != [reading.epoch for reading in readings]:
                return StaleReadings(epochs)
            for quota, one, reading in zip(quotas, reserved, readings, strict=True):
                used = sum(one.tokens.values()) + reading.tokens
                if used + tokens > quota.max_tokens:
                    return QuotaRefusal(quota, used)
            for one in reserved:
                one.tokens[reservation_id], one.lease_ends[reservation_id] = tokens, now + self._lease_seconds
            return None

    def renew(self, reservation_id: str, quotas: Sequence[MonthlyQuota]) -> None:
        with self._lock:
            for quota in quotas:
                one = self._quotas.get(quota.name)
                if one and reservation_id in one.lease_ends:
                    one.lease_ends[reservation_id] = self._clock() + self._lease_seconds

    def release(self, reservation_id: str, quotas: Sequence[MonthlyQuota]) -> None:
        with self._lock:
            for quota in quotas:
                if one := self._quotas.get(quota.name):
                    self._drop(one, reservation_id)

    def _reservations(self, quota: MonthlyQuota, now: float) -> _QuotaReservations:
        if len(self._quotas) > MAX_QUOTA_COUNT:
            self._quotas = {name: one for name, one in self._quotas.items() if one.tokens}
        one = self._quotas.setdefault(quota.name, _QuotaReservations(next(self._epochs)))
        for reservation_id in [name for name, lease_end in one.lease_ends.items() if lease_end <= now]:
            self._drop(one, reservation_id)
        return one

    def _drop(self, one: _QuotaReservations, reservation_id: str) -> None:
        if one.tokens.pop(reservation_id, None) is not None:
            del one.lease_ends[reservation_id]
            one.epoch = next(self._epochs)


local_reservations = LocalReservationStore()
