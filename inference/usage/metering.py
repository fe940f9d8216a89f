"""The metering of requests from admission to end: limits are reserved first, then settled, and usage is recorded.

Two background threads per process settle reservations and write the ledger, so that no request waits for either.
"""

import asyncio
import atexit
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Self

import redis
import structlog
from django.conf import settings
from django.db import Error as DatabaseError

from inference.engine import GenerationStream, Usage
from inference.usage.ledger import LedgerAmount, LedgerBuffer, LedgerKey
from inference.usage.quotas import MonthlyQuota
from inference.usage.reservations import (
    LEASE_SECONDS,
    BudgetState,
    MonthlyQuotaExceeded,
    Reservation,
    read_budgets,
    reserve,
)
from inference.usage.scopes import LimitScope
from shared.api.limits.counters import Change, CounterStore
from shared.serving.db_threads import run_in_db_thread

SETTLE_INTERVAL_SECONDS = 1.0  # and as soon as a request has ended
WRITE_INTERVAL_SECONDS = 1.0
RENEW_INTERVAL_SECONDS = LEASE_SECONDS / 3
MAX_SETTLEMENTS_PER_RUN = 1000
MAX_UNSETTLED_COUNT = 100_000  # while Redis is down; older reservations expire
MAX_QUOTA_COUNT = 10_000  # whose tokens in the ledger are remembered

logger = structlog.get_logger(__name__)


class Admission:
    """An admitted request, for use by one event loop.

    Its reservations last until all streams that it follows have ended, or until its `with` block ends without any.
    ledger_key: None if the caller records the usage by itself.
    """

    def __init__(self, meter: "UsageMeter", reservation: Reservation, ledger_key: LedgerKey | None) -> None:
        self.reservation = reservation
        self.ledger_key = ledger_key
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


# The changes of a reservation, which depend on the time when they are made, and the store that they are for.
Changes = tuple[CounterStore, Callable[[], Iterable[Change]]]


class UsageMeter:
    """The running admissions of a process, and those that wait to be settled and written. Thread-safe."""

    def __init__(self, buffer: LedgerBuffer) -> None:
        self.buffer = buffer
        self._settling = threading.Lock()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._running: dict[str, Admission] = {}
        self._unsettled: deque[Changes] = deque(maxlen=MAX_UNSETTLED_COUNT)
        # Reservations in a month, of ended requests whose usage is in the buffer.
        self._unwritten: deque[Reservation] = deque(maxlen=MAX_UNSETTLED_COUNT)
        self._ledger_tokens: dict[MonthlyQuota, int] = {}
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
        admitting = asyncio.ensure_future(run_in_db_thread(self._admit, scopes, quotas, tokens, ledger_key))
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
        reservation = admission.reservation
        self._running.pop(reservation.id, None)
        tokens = amount.usage.total_tokens if amount else 0
        self._unsettled.append((reservation.store, partial(reservation.settlement, tokens)))
        if amount and admission.ledger_key:
            self.buffer.add(admission.ledger_key, amount)
        if reservation.months:
            self._unwritten.append(reservation)
        self._wake.set()

    def close(self) -> None:
        """Settle and write everything that has ended."""
        self.settle()
        self.write()

    def write(self) -> None:
        """Write buffered usage to the ledger, then end the month's reservations of that usage."""
        with self._writing:
            written = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
            if not self.buffer.flush():
                self._unwritten.extendleft(reversed(written))
                return
            self._unsettled.extend((one.store, partial(one.month_changes, 0)) for one in written)
            self.settle()

    def settle(self) -> None:
        """Settle what has ended so far. A concurrent call returns only after the settlements of the other."""
        with self._settling:
            count = min(len(self._unsettled), MAX_SETTLEMENTS_PER_RUN)
            self._unsettled.extendleft(_make_changes([self._unsettled.popleft() for _ in range(count)]))

    def _admit(
        self, scopes: Sequence[LimitScope], quotas: tuple[MonthlyQuota, ...], tokens: int, ledger_key: LedgerKey | None
    ) -> Admission:
        """Admit a request after settling what has ended in this process."""
        self._start_threads()
        self.settle()
        try:
            reservation = self._reserve(scopes, quotas, tokens)
        except MonthlyQuotaExceeded:
            self.write()  # ended requests may have used less than they had reserved
            reservation = self._reserve(scopes, quotas, tokens)
        admission = Admission(self, reservation, ledger_key)
        self._running[reservation.id] = admission
        return admission

    def _reserve(self, scopes: Sequence[LimitScope], quotas: tuple[MonthlyQuota, ...], tokens: int) -> Reservation:
        """Reserve tokens, then read the ledger, since tokens may have moved into it meanwhile.

        Those that moved in between count twice, so that a reservation that fits does so for certain. Another one is
        tried again beside the ledger's tokens, which only grow.
        """
        while True:
            reservation = reserve(scopes, tokens, {quota: self._ledger_tokens.get(quota, 0) for quota in quotas})
            try:
                current = {quota: quota.read_used_tokens() for quota in quotas}
            except DatabaseError:
                self._cancel(reservation)
                raise
            if len(self._ledger_tokens) > MAX_QUOTA_COUNT:
                self._ledger_tokens.clear()
            self._ledger_tokens |= current
            if all(reservation.held[quota] + current[quota] <= quota.max_tokens for quota in quotas):
                return reservation
            self._cancel(reservation)

    def _cancel(self, reservation: Reservation) -> None:
        ends = (partial(reservation.settlement, 0), partial(reservation.month_changes, 0))
        self._unsettled.extend((reservation.store, changes) for changes in ends)
        self.settle()

    def _state(self, scopes: Sequence[LimitScope]) -> list[BudgetState]:
        self.settle()
        return read_budgets(scopes)

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
        """Extend the reservations. If Redis does not answer, the next attempt is long before they end."""
        running = [one.reservation for one in list(self._running.values())]
        unwritten = [(one.store, partial(one.month_changes, LEASE_SECONDS)) for one in list(self._unwritten)]
        _make_changes([*((one.store, one.renewal) for one in running), *unwritten])


def _make_changes(pending: Sequence[Changes]) -> list[Changes]:
    """Make changes, in one call to each store. Return those that a store did not take."""
    failed: list[Changes] = []
    for store in {id(store): store for store, _ in pending}.values():
        group = [one for one in pending if one[0] is store]
        try:
            store.change([change for _, changes in group for change in changes()])
        except redis.RedisError:
            failed += group
    return failed


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
