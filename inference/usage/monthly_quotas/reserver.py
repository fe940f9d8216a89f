"""Reserving tokens within the monthly quotas of a request."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import connection

from inference.usage.monthly_quotas.quotas import MonthlyQuota
from inference.usage.monthly_quotas.redis_reservations import redis_reservations
from inference.usage.monthly_quotas.reservations import (
    NO_EPOCH,
    LedgerReading,
    QuotaRefusal,
    QuotaReservationStore,
    StaleReadings,
    local_reservations,
)
from shared.api.limits.rate_limits import report_store_failure

READING_TTL_SECONDS = 1.0  # bounds how long usage that was written without a reservation, as a batch's, goes unseen
MAX_ATTEMPTS = 50
MAX_READING_COUNT = 10_000


@dataclass(frozen=True)
class QuotaReservation:
    """Tokens that are reserved for one request."""

    id: str
    quotas: tuple[MonthlyQuota, ...]
    store: QuotaReservationStore

    def renew(self) -> None:
        self.store.renew(self.id, self.quotas)

    def release(self) -> None:
        self.store.release(self.id, self.quotas)


class MonthlyQuotaExceeded(Exception):
    """A quota that has not enough tokens left for a request."""

    def __init__(self, quota: MonthlyQuota, used: int) -> None:
        super().__init__("the monthly quota is used up")
        self.quota = quota
        self.used = used


class QuotaReserver:
    """A thread-safe cache of ledger readings, with which tokens are reserved.

    It reads the database over the calling thread's connection, and closes that connection.
    """

    def __init__(self) -> None:
        self._readings: dict[str, tuple[LedgerReading, float]] = {}

    def reserve(self, reservation_id: str, quotas: tuple[MonthlyQuota, ...], tokens: int) -> QuotaReservation:
        """Reserve tokens in all quotas, or raise MonthlyQuotaExceeded.

        While Redis is down, this process counts its own reservations only.
        """
        if settings.REDIS_URL:
            try:
                return self._reserve_in(redis_reservations(settings.REDIS_URL), reservation_id, quotas, tokens)
            except redis.RedisError as error:
                report_store_failure(error)
        return self._reserve_in(local_reservations, reservation_id, quotas, tokens)

    def _reserve_in(
        self, store: QuotaReservationStore, reservation_id: str, quotas: tuple[MonthlyQuota, ...], tokens: int
    ) -> QuotaReservation:
        for _ in range(MAX_ATTEMPTS):
            reason = store.reserve(reservation_id, quotas, [self._cached_reading(quota) for quota in quotas], tokens)
            if isinstance(reason, QuotaRefusal):
                raise MonthlyQuotaExceeded(reason.quota, reason.used)
            if reason is None:
                return QuotaReservation(reservation_id, quotas, store)
            self._read_ledger(quotas, reason)
        raise MonthlyQuotaExceeded(quotas[0], quotas[0].max_tokens)  # usage is written faster than it can be read

    def _cached_reading(self, quota: MonthlyQuota) -> LedgerReading:
        reading, expires_at = self._readings.get(quota.name, (LedgerReading(NO_EPOCH, 0), 0.0))
        return reading if expires_at > time.monotonic() else LedgerReading(NO_EPOCH, 0)

    def _read_ledger(self, quotas: Sequence[MonthlyQuota], stale: StaleReadings) -> None:
        if len(self._readings) > MAX_READING_COUNT:
            self._readings.clear()
        try:
            for quota, epoch in zip(quotas, stale.epochs, strict=True):
                reading = LedgerReading(epoch, quota.read_used_tokens())
                self._readings[quota.name] = (reading, time.monotonic() + READING_TTL_SECONDS)
        finally:
            if not connection.in_atomic_block:
                connection.close()


quota_reserver = QuotaReserver()
