"""Reservations of requests in the counters of their limits: running requests, tokens per minute and tokens per month.

A reserved amount counts in full until the request ends; then the used tokens count until a minute after its admission.
In the month they count until the ledger has them. While the request runs, its process extends the reservation. When the
process dies, the slot is free and the month's tokens are forgotten after LEASE_SECONDS, the minute's after a minute.
"""

import math
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inference.usage.quotas import MonthlyQuota
from inference.usage.scopes import LimitScope
from shared.api.limits import counters
from shared.api.limits.counters import Change, Count, Entry

WINDOW_SECONDS = 60.0
LEASE_SECONDS = 30.0


class BudgetExceeded(Exception):
    """A refusal by a scope's limit on tokens, or else on concurrent requests.

    used: the tokens or running requests that count in the scope. retry_after: whole seconds until there is room.
    """

    def __init__(self, scope: LimitScope, count: Count, *, is_token_limit: bool) -> None:
        super().__init__("the token budget is used up")
        self.scope = scope
        self.is_token_limit = is_token_limit
        self.used = count.used
        self.retry_after = max(1, math.ceil(count.wait_seconds)) if is_token_limit else 1


class MonthlyQuotaExceeded(Exception):
    """A quota that has not enough tokens left for a request."""

    def __init__(self, quota: MonthlyQuota, used: int) -> None:
        super().__init__("the monthly quota is used up")
        self.quota = quota
        self.used = used


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """The entries of one admitted request, in the store that counts them.

    held: the tokens that count in each quota, this request's included, without those of the ledger.
    """

    id: str
    slots: Sequence[Entry]
    minutes: Sequence[Entry]
    months: Sequence[Entry]
    store: counters.CounterStore
    held: Mapping[MonthlyQuota, int]
    admitted_at: float

    def renewal(self) -> Iterator[Change]:
        """Yield the changes that extend a running request's reservation."""
        for entry in self.slots:
            yield Change(self.id, entry, entry.weight, LEASE_SECONDS)
        for entry in self.minutes:
            yield Change(self.id, entry, entry.weight, max(LEASE_SECONDS, self._window_left()))
        yield from self.month_changes(LEASE_SECONDS)

    def settlement(self, tokens: int) -> Iterator[Change]:
        """Yield the changes at the end of a request that used these tokens. The month's stay."""
        for entry in self.slots:
            yield Change(self.id, entry, 0, 0)
        for entry in self.minutes:
            yield Change(self.id, entry, tokens, self._window_left())

    def month_changes(self, seconds: float) -> Iterator[Change]:
        """Yield the changes that extend the month's tokens, or end them with 0 seconds."""
        for entry in self.months:
            yield Change(self.id, entry, entry.weight, seconds)

    def _window_left(self) -> float:
        return self.admitted_at + WINDOW_SECONDS - time.monotonic()


def reserve(scopes: Sequence[LimitScope], tokens: int, ledger_tokens: Mapping[MonthlyQuota, int]) -> Reservation:
    """Reserve tokens in the scopes, and in the quotas beside the ledger's tokens; or nowhere, and raise the reason.

    A request for more than a scope's whole limit is accepted while nothing else counts there.
    """
    reservation_id = secrets.token_hex(12)
    slots, minutes = [slot_entry(scope) for scope in scopes], [minute_entry(scope, tokens) for scope in scopes]
    months = [
        Entry(f"month:{quota.name}", quota.max_tokens - used, LEASE_SECONDS, tokens)
        for quota, used in ledger_tokens.items()
    ]
    store, counts = counters.add(reservation_id, [*slots, *minutes, *months])
    of_slots, of_minutes, of_months = counts[: len(slots)], counts[len(slots) :], counts[2 * len(slots) :]
    for scope, slot, minute in zip(scopes, of_slots, of_minutes, strict=False):
        if not (slot.fits and minute.fits):
            raise BudgetExceeded(scope, minute if slot.fits else slot, is_token_limit=slot.fits)
    for (quota, used), month in zip(ledger_tokens.items(), of_months, strict=True):
        if not month.fits:
            raise MonthlyQuotaExceeded(quota, month.used + used)
    held = {quota: month.used for quota, month in zip(ledger_tokens, of_months, strict=True)}
    return Reservation(
        id=reservation_id,
        slots=slots,
        minutes=minutes,
        months=months,
        store=store,
        held=held,
        admitted_at=time.monotonic(),
    )


def slot_entry(scope: LimitScope) -> Entry:
    """Return the entry of a running request."""
    return Entry(f"running:{scope.name}", scope.max_concurrency, LEASE_SECONDS)


def minute_entry(scope: LimitScope, tokens: int) -> Entry:
    """Return the entry of a request's tokens. A limit of 0 has no room for any request."""
    limit = scope.tokens_per_minute
    return Entry(f"tokens:{scope.name}", limit, WINDOW_SECONDS, min(tokens, limit) if limit else 1)


@dataclass(frozen=True)
class BudgetState:
    """The tokens and running requests that count in a scope, and the seconds until the oldest tokens end."""

    tokens: int
    running: int
    reset_seconds: float


def read_budgets(scopes: Sequence[LimitScope]) -> list[BudgetState]:
    """Return what counts in each scope now."""
    _, counts = counters.add(counters.PEEK, [*map(slot_entry, scopes), *(minute_entry(scope, 0) for scope in scopes)])
    return [
        BudgetState(minute.used, slot.used, minute.wait_seconds if minute.used else 0.0)
        for slot, minute in zip(counts[: len(scopes)], counts[len(scopes) :], strict=True)
    ]
