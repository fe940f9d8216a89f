"""From a request's admission to its end: what it reserved is settled and what it used goes into the ledger, however it
ends. Two threads a process do that, so that no request waits for it.
"""

import asyncio
import atexit
import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import redis
import structlog
from django.conf import settings
from django.db import Error as DatabaseError

from inference.engine import GenerationStream, Usage
from inference.usage.budgets import LEASE_S, Budget, Held, Refusal, Settlement, State, redis_budget
from inference.usage.ledger import Amount, Buffer, Line
from inference.usage.limits import Scope
from inference.usage.local_budget import local_budget
from inference.usage.models import LONGEST_MODEL_ID
from inference.usage.months import Hold, MonthFull, months
from inference.usage.quotas import Quota

SETTLE_EVERY_S = 1.0  # and as soon as something has ended
WRITE_EVERY_S = 1.0
RENEW_EVERY_S = LEASE_S / 3
SETTLED_AT_ONCE = 1000
MOST_UNSETTLED = 100_000  # while Redis is away; the leases of older ones run out

logger = structlog.get_logger(__name__)


class Refused(Exception):
    """A request that was not let in, and how many tokens it may have taken."""

    def __init__(self, refusal: Refusal, tokens: int) -> None:
        super().__init__("refused")
        self.refusal = refusal
        self.tokens = tokens


class Admission:
    """A request that was let in. It holds its place until all generations that it follows have ended, or until its
    `with` block ends without one. For one event loop."""

    def __init__(
        self, bookkeeper: "Bookkeeper", budget: Budget, held: Held, line: Line, month: Hold | None = None
    ) -> None:
        self.budget = budget
        self.month = month
        self.held = held
        self.line = line
        self._bookkeeper = bookkeeper
        self._running: int | None = None
        self._amount = Amount(1, Usage(0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is None:
            self.give_back()

    def follow(self, *streams: GenerationStream) -> None:
        """The request ends with the last of them."""
        self._running = len(streams)
        for stream in streams:
            stream.when_finished(self._add)

    def use(self, usage: Usage) -> None:
        """The request has ended with this usage."""
        self._running = 1
        self._add(usage)

    def give_back(self) -> None:
        """The request has used nothing."""
        self._bookkeeper.end(self, None)

    def _add(self, usage: Usage) -> None:
        self._amount += Amount(0, usage)
        self._running = (self._running or 1) - 1
        if not self._running:
            self._bookkeeper.end(self, self._amount)


class Bookkeeper:
    """Who was let in and has not ended. Safe to use from many threads."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self._settling = threading.Lock()
        self._starting = threading.Lock()
        self._held: dict[str, Admission] = {}
        self._ended: deque[tuple[Budget, Settlement]] = deque(maxlen=MOST_UNSETTLED)
        self._months_ended: deque[Hold] = deque(maxlen=MOST_UNSETTLED)  # what they used is in the buffer, or written
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []

    async def admit(
        self, *, scopes: Sequence[Scope], quotas: tuple[Quota, ...] = (), tokens: int, line: Line
    ) -> Admission:
        """Raises Refused, MonthFull."""
        if not settings.REDIS_URL and not quotas:
            return self._admit(scopes, quotas, tokens, line)
        admitting = asyncio.ensure_future(asyncio.to_thread(self._admit, scopes, quotas, tokens, line))
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            admitting.add_done_callback(_give_back)
            raise

    async def state(self, scopes: Sequence[Scope]) -> list[State]:
        """What counts just now."""
        return await asyncio.to_thread(self._state, scopes)

    def end(self, admission: Admission, amount: Amount | None) -> None:
        """Never waits."""
        self._held.pop(admission.held.reservation, None)
        tokens = amount.usage.total_tokens if amount else 0
        self._ended.append((admission.budget, Settlement(admission.held, tokens)))
        if amount:
            self.buffer.add(admission.line, amount)
        if admission.month:
            self._months_ended.append(admission.month)
        self._wake.set()

    def close(self) -> None:
        """Everything is settled and written that has ended."""
        self.settle()
        self.write()

    def write(self) -> None:
        """What has ended goes into the ledger, and is no longer held beside it."""
        written = [self._months_ended.popleft() for _ in range(len(self._months_ended))]
        if not self.buffer.flush():
            self._months_ended.extendleft(reversed(written))
            return
        for place, hold in enumerate(written):
            try:
                hold.release()
            except redis.RedisError:
                self._months_ended.extendleft(reversed(written[place:]))
                return

    def settle(self) -> None:
        """What has ended until now. Who waits for it knows that it is done."""
        with self._settling:
            ended = [self._ended.popleft() for _ in range(min(len(self._ended), SETTLED_AT_ONCE))]
            for budget in {id(budget): budget for budget, _ in ended}.values():
                theirs = [settlement for other, settlement in ended if other is budget]
                try:
                    budget.settle(theirs)
                except redis.RedisError:
                    self._ended.extendleft((budget, settlement) for settlement in theirs)

    def _admit(self, scopes: Sequence[Scope], quotas: tuple[Quota, ...], tokens: int, line: Line) -> Admission:
        """What this process knows to have ended counts no more. With Redis away this process counts for itself."""
        self._start()
        self.settle()
        held = Held(secrets.token_hex(12), tuple(scope.name for scope in scopes))
        budget: Budget = redis_budget(settings.REDIS_URL) if settings.REDIS_URL else local_budget
        try:
            refusal = budget.reserve(held.reservation, scopes, tokens)
        except redis.RedisError:
            budget = local_budget
            refusal = budget.reserve(held.reservation, scopes, tokens)
        if refusal:
            raise Refused(refusal, tokens)
        try:
            month = self._hold_month(held.reservation, quotas, tokens) if quotas else None
        except (MonthFull, DatabaseError):
            self._ended.append((budget, Settlement(held, 0)))
            raise
        admission = self._held[held.reservation] = Admission(self, budget, held, line, month)
        return admission

    def _hold_month(self, name: str, quotas: tuple[Quota, ...], tokens: int) -> Hold:
        """What ended here and may have used less than was held for it is written before anybody is refused."""
        try:
            return months.hold(name, quotas, tokens)
        except MonthFull:
            self.write()
            return months.hold(name, quotas, tokens)

    def _state(self, scopes: Sequence[Scope]) -> list[State]:
        self.settle()
        if settings.REDIS_URL:
            with contextlib.suppress(redis.RedisError):
                return redis_budget(settings.REDIS_URL).state(scopes)
        return local_budget.state(scopes)

    def _start(self) -> None:
        with self._starting:
            if self._threads and all(thread.is_alive() for thread in self._threads):
                return
            # None yet, or none any more, as in a process that was forked.
            work = {"usage-settling": self._settle_on, "usage-writing": self._write_on}
            self._threads = [threading.Thread(target=on, name=name, daemon=True) for name, on in work.items()]
            for thread in self._threads:
                thread.start()
            atexit.register(self.close)

    def _settle_on(self) -> None:
        renew_at = time.monotonic() + RENEW_EVERY_S
        while True:
            self._wake.wait(SETTLE_EVERY_S)
            self._wake.clear()
            with _every_failure_told():
                self.settle()
                if time.monotonic() >= renew_at:
                    renew_at = time.monotonic() + RENEW_EVERY_S
                    self._renew()

    def _write_on(self) -> None:
        """Apart from the settling: a database may let one wait."""
        while True:
            time.sleep(WRITE_EVERY_S)
            with _every_failure_told():
                self.write()

    def _renew(self) -> None:
        held = list(self._held.values())
        for budget in {id(one.budget): one.budget for one in held}.values():
            try:
                budget.renew([one.held for one in held if one.budget is budget])
            except redis.RedisError:
                return  # the next time is long before the leases end
        for month in [*(one.month for one in held if one.month), *self._months_ended]:
            try:
                month.renew()
            except redis.RedisError:
                return


@contextlib.contextmanager
def _every_failure_told() -> Iterator[None]:
    """Of one round; if its thread ended, nothing would ever be settled or written again."""
    try:
        yield
    except Exception:
        logger.exception("usage_not_kept")


def line_of(*, user_id: int, api_key_id: int | None, model_id: str, now: datetime) -> Line:
    """Where what is used at this moment is written."""
    return Line(now.astimezone(UTC).date(), user_id, api_key_id, model_id[:LONGEST_MODEL_ID])


def _give_back(admitting: "asyncio.Future[Admission]") -> None:
    """Who asked has left before they were let in."""
    if not admitting.cancelled() and admitting.exception() is None:
        admitting.result().give_back()


bookkeeper = Bookkeeper(Buffer())
