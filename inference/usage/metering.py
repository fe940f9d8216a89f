"""The metering of requests from admission to end: limits are reserved first, then settled, and usage is recorded.

Two background threads per process settle reservations and write the ledger, so that no request waits for either.
"""

import asyncio
import atexit
import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import redis
import structlog
from django.conf import settings
from django.db import Error as DatabaseError

from inference.engine import GenerationStream, Usage
from inference.usage.ledger import LedgerAmount, LedgerBuffer, LedgerKey
from inference.usage.monthly_quotas.quotas import MonthlyQuota
from inference.usage.monthly_quotas.reserver import MonthlyQuotaExceeded, QuotaReservation, quota_reserver
from inference.usage.scopes import LimitScope
from inference.usage.token_budget import (
    LEASE_SECONDS,
    BudgetRefusal,
    BudgetReservation,
    BudgetSettlement,
    BudgetState,
    TokenBudget,
    local_budget,
    redis_budget,
)

SETTLE_INTERVAL_SECONDS = 1.0  # and as soon as a request has ended
WRITE_INTERVAL_SECONDS = 1.0
RENEW_INTERVAL_SECONDS = LEASE_SECONDS / 3
MAX_SETTLEMENTS_PER_RUN = 1000
MAX_UNSETTLED_COUNT = 100_000  # while Redis is down; the leases of older reservations expire

logger = structlog.get_logger(__name__)


class BudgetExceeded(Exception):
    """A request that a token budget refused. tokens: the number that the request needs."""

    def __init__(self, refusal: BudgetRefusal, tokens: int) -> None:
        super().__init__("the token budget is used up")
        self.refusal = refusal
        self.tokens = tokens


class Admission:
    """An admitted request, for use by one event loop.

    Its reservations last until all streams that it follows have ended, or until its `with` block ends without any.
    ledger_key: None if the caller records the usage by itself.
    """

    def __init__(
        self,
        meter: "UsageMeter",
        budget: TokenBudget,
        reservation: BudgetReservation,
        ledger_key: LedgerKey | None,
        quota_reservation: QuotaReservation | None = None,
    ) -> None:
        self.budget = budget
        self.reservation = reservation
        self.ledger_key = ledger_key
        self.quota_reservation = quota_reservation
        self._meter = meter
        self._running_streams: int | None = None
        self._amount = LedgerAmount(1, Usage(0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running_streams is None:
            self.release()

    def follow(self, *streams: GenerationStream) -> None:
        """End the request when the last of these streams ends."""
        self._running_streams = len(streams)
        for stream in streams:
            stream.add_done_callback(self._end_stream)

    def finish(self, usage: Usage) -> None:
        """End the request with this usage."""
        self._running_streams = 1
        self._end_stream(usage)

    def release(self) -> None:
        """End the request without usage."""
        self._meter.end(self, None)

    def _end_stream(self, usage: Usage) -> None:
        self._amount += LedgerAmount(0, usage)
        self._running_streams = (self._running_streams or 1) - 1
        if not self._running_streams:
            self._meter.end(self, self._amount)


class UsageMeter:
    """The running admissions of a process, and those that wait to be settled and written. Thread-safe."""

    def __init__(self, buffer: LedgerBuffer) -> None:
        self.buffer = buffer
        self._settling = threading.Lock()
        self._starting = threading.Lock()
        self._running: dict[str, Admission] = {}
        self._unsettled: deque[tuple[TokenBudget, BudgetSettlement]] = deque(maxlen=MAX_UNSETTLED_COUNT)
        # Quota reservations of ended requests, whose usage is in the buffer or written.
        self._unreleased: deque[QuotaReservation] = deque(maxlen=MAX_UNSETTLED_COUNT)
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []

    async def admit(
        self,
        *,
        scopes: Sequence[LimitScope],
        quotas: tuple[MonthlyQuota, ...] = (),
        tokens: int,
        ledger_key: LedgerKey | None,
    ) -> Admission:
        """Reserve tokens for a request. Raise BudgetExceeded or MonthlyQuotaExceeded."""
        if not settings.REDIS_URL and not quotas:
            return self._admit(scopes, quotas, tokens, ledger_key)
        admitting = asyncio.ensure_future(asyncio.to_thread(self._admit, scopes, quotas, tokens, ledger_key))
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            admitting.add_done_callback(_release)
            raise

    async def state(self, scopes: Sequence[LimitScope]) -> list[BudgetState]:
        """Return the tokens and requests that count now."""
        return await asyncio.to_thread(self._state, scopes)

    def end(self, admission: Admission, amount: LedgerAmount | None) -> None:
        """Queue an admission for settlement, and its usage for the ledger. Never block."""
        self._running.pop(admission.reservation.id, None)
        tokens = amount.usage.total_tokens if amount else 0
        self._unsettled.append((admission.budget, BudgetSettlement(admission.reservation, tokens)))
        if amount and admission.ledger_key:
            self.buffer.add(admission.ledger_key, amount)
        if admission.quota_reservation:
            self._unreleased.append(admission.quota_reservation)
        self._wake.set()

    def close(self) -> None:
        """Settle and write everything that has ended."""
        self.settle()
        self.write()

    def write(self) -> None:
        """Write buffered usage to the ledger, then release the quota reservations of that usage."""
        written = [self._unreleased.popleft() for _ in range(len(self._unreleased))]
        if not self.buffer.flush():
            self._unreleased.extendleft(reversed(written))
            return
        for position, reservation in enumerate(written):
            try:
                reservation.release()
            except redis.RedisError:
                self._unreleased.extendleft(reversed(written[position:]))
                return

    def settle(self) -> None:
        """Settle what has ended so far. A concurrent call returns only after the settlements of the other."""
        with self._settling:
            count = min(len(self._unsettled), MAX_SETTLEMENTS_PER_RUN)
            ended = [self._unsettled.popleft() for _ in range(count)]
            for budget in {id(budget): budget for budget, _ in ended}.values():
                settlements = [settlement for other, settlement in ended if other is budget]
                try:
                    budget.settle(settlements)
                except redis.RedisError:
                    self._unsettled.extendleft((budget, settlement) for settlement in settlements)

    def _admit(
        self, scopes: Sequence[LimitScope], quotas: tuple[MonthlyQuota, ...], tokens: int, ledger_key: LedgerKey | None
    ) -> Admission:
        """Admit a request after settling what has ended in this process."""
        self._start_threads()
        self.settle()
        reservation = BudgetReservation(secrets.token_hex(12), tuple(scope.name for scope in scopes))
        budget = self._reserve_tokens(reservation, scopes, tokens)
        try:
            quota_reservation = self._reserve_quotas(reservation.id, quotas, tokens) if quotas else None
        except (MonthlyQuotaExceeded, DatabaseError):
            self._unsettled.append((budget, BudgetSettlement(reservation, 0)))
            raise
        admission = Admission(self, budget, reservation, ledger_key, quota_reservation)
        self._running[reservation.id] = admission
        return admission

    def _reserve_tokens(self, reservation: BudgetReservation, scopes: Sequence[LimitScope], tokens: int) -> TokenBudget:
        """Reserve tokens and return the budget that counts them: this process's own while Redis is down."""
        budget: TokenBudget = redis_budget(settings.REDIS_URL) if settings.REDIS_URL else local_budget
        try:
            refusal = budget.reserve(reservation.id, scopes, tokens)
        except redis.RedisError:
            budget = local_budget
            refusal = budget.reserve(reservation.id, scopes, tokens)
        if refusal:
            raise BudgetExceeded(refusal, tokens)
        return budget

    def _reserve_quotas(self, reservation_id: str, quotas: tuple[MonthlyQuota, ...], tokens: int) -> QuotaReservation:
        """Reserve tokens. Before a refusal, write ended requests, which may have used less than they had reserved."""
        try:
            return quota_reserver.reserve(reservation_id, quotas, tokens)
        except MonthlyQuotaExceeded:
            self.write()
            return quota_reserver.reserve(reservation_id, quotas, tokens)

    def _state(self, scopes: Sequence[LimitScope]) -> list[BudgetState]:
        self.settle()
        if settings.REDIS_URL:
            with contextlib.suppress(redis.RedisError):
                return redis_budget(settings.REDIS_URL).state(scopes)
        return local_budget.state(scopes)

    def _start_threads(self) -> None:
        """Start the background threads, unless they run: a fork has the parent's objects but not its threads."""
        with self._starting:
            if self._threads and all(thread.is_alive() for thread in self._threads):
                return
            targets = {"usage-settling": self._settle_forever, "usage-writing": self._write_forever}
            self._threads = [
                threading.Thread(target=target, name=name, daemon=True) for name, target in targets.items()
            ]
            for thread in self._threads:
                thread.start()
            atexit.register(self.close)

    def _settle_forever(self) -> None:
        renew_at = time.monotonic() + RENEW_INTERVAL_SECONDS
        while True:
            self._wake.wait(SETTLE_INTERVAL_SECONDS)
            self._wake.clear()
            with _log_exceptions():
                self.settle()
                if time.monotonic() >= renew_at:
                    renew_at = time.monotonic() + RENEW_INTERVAL_SECONDS
                    self._renew()

    def _write_forever(self) -> None:
        """Write in a thread apart from settling, since the database may block."""
        while True:
            time.sleep(WRITE_INTERVAL_SECONDS)
            with _log_exceptions():
                self.write()

    def _renew(self) -> None:
        running = list(self._running.values())
        for budget in {id(one.budget): one.budget for one in running}.values():
            try:
                budget.renew([one.reservation for one in running if one.budget is budget])
            except redis.RedisError:
                return  # the next attempt is long before the leases expire
        for reservation in [*(one.quota_reservation for one in running), *self._unreleased]:
            try:
                if reservation:
                    reservation.renew()
            except redis.RedisError:
                return


@contextlib.contextmanager
def _log_exceptions() -> Iterator[None]:
    """Log an exception instead of raising it. If its thread ended, nothing would be settled or written again."""
    try:
        yield
    except Exception:
        logger.exception("usage_metering_failed")


def _release(admitting: "asyncio.Future[Admission]") -> None:
    """Release an admission whose caller was cancelled meanwhile."""
    if not admitting.cancelled() and admitting.exception() is None:
        admitting.result().release()


usage_meter = UsageMeter(LedgerBuffer())
