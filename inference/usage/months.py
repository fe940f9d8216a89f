"""Letting requests in within the quotas of their month, from what the ledger has and what is held beside it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import connection

from inference.usage.holds import UNKNOWN, Full, Holds, Known, Stale, local_holds, redis_holds
from inference.usage.quotas import Quota
from shared.api.rate_limits import note_store_failure

KNOWN_FOR_S = 1.0  # what others wrote without a hold, as batches do, is seen after that
MOST_TRIES = 50
MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class Hold:
    """Tokens that are held for one request."""

    name: str
    quotas: tuple[Quota, ...]
    holds: Holds

    def renew(self) -> None:
        self.holds.renew(self.name, self.quotas)

    def release(self) -> None:
        self.holds.release(self.name, self.quotas)


class MonthFull(Exception):
    """A quota has not enough left."""

    def __init__(self, quota: Quota, taken: int) -> None:
        super().__init__("the month is used up")
        self.quota = quota
        self.taken = taken


class Months:
    """Safe to use from many threads. It asks the database over the calling thread's own connection, and closes it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Known, float]] = {}

    def hold(self, name: str, quotas: tuple[Quota, ...], tokens: int) -> Hold:
        """Raises MonthFull. With Redis away this process counts for itself."""
        if settings.REDIS_URL:
            holds: Holds = redis_holds(settings.REDIS_URL)
            try:
                return self._hold(holds, name, quotas, tokens)
            except redis.RedisError as error:
                note_store_failure(error)
        return self._hold(local_holds, name, quotas, tokens)

    def _hold(self, holds: Holds, name: str, quotas: tuple[Quota, ...], tokens: int) -> Hold:
        for _ in range(MOST_TRIES):
            answer = holds.hold(name, quotas, [self._recall(quota) for quota in quotas], tokens)
            if isinstance(answer, Full):
                raise MonthFull(answer.quota, answer.taken)
            if answer is None:
                return Hold(name, quotas, holds)
            self._read(quotas, answer)
        raise MonthFull(quotas[0], quotas[0].tokens)  # so much goes on that nothing can be known just now

    def _recall(self, quota: Quota) -> Known:
        known, until = self._known.get(quota.name, (Known(UNKNOWN, 0), 0.0))
        return known if until > time.monotonic() else Known(UNKNOWN, 0)

    def _read(self, quotas: Sequence[Quota], stale: Stale) -> None:
        if len(self._known) > MOST_REMEMBERED:
            self._known.clear()
        try:
            for quota, epoch in zip(quotas, stale.epochs, strict=True):
                self._known[quota.name] = (Known(epoch, quota.used()), time.monotonic() + KNOWN_FOR_S)
        finally:
            if not connection.in_atomic_block:
                connection.close()


months = Months()
