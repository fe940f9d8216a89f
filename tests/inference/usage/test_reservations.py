"""Reservations in the limits of a request, counted in Redis or in one process."""

from collections.abc import Sequence
from datetime import date

import pytest
from pytest_django import Settings

from inference.usage import reservations
from inference.usage.quotas import MonthlyQuota
from inference.usage.reservations import (
    BudgetExceeded,
    BudgetState,
    MonthlyQuotaExceeded,
    Reservation,
    read_budgets,
    reserve,
)
from inference.usage.scopes import LimitScope
from shared.api.limits import counters
from shared.api.limits.counters import LocalCounters

pytestmark = [pytest.mark.no_database, pytest.mark.usefixtures("store")]

KEY, USER = LimitScope("key:1", 0, 100, 3), LimitScope("user:1", 0, 150, 4)
QUOTA = MonthlyQuota("user", 7, 100, date(2026, 11, 1))
OTHER = MonthlyQuota("key", 8, 50, date(2026, 11, 1))


@pytest.fixture(params=["redis", "local"])
def store(request: pytest.FixtureRequest, settings: Settings) -> None:
    counters.local_counters.clear()
    if request.param == "local":
        settings.REDIS_URL = ""


def refuse(tokens: int, *scopes: LimitScope) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as caught:
        reserve(scopes or (KEY,), tokens, {})
    return caught.value


def settle(reservation: Reservation, tokens: int) -> None:
    reservation.store.change([*reservation.settlement(tokens)])


def renew(reservation: Reservation) -> None:
    reservation.store.change([*reservation.renewal()])


def end_months(reservation: Reservation) -> None:
    reservation.store.change([*reservation.month_changes(0)])


def counts(*scopes: LimitScope) -> list[tuple[int, int]]:
    return [(state.tokens, state.running) for state in read_budgets(scopes or (KEY,))]


def held(tokens: int, ledger: dict[MonthlyQuota, int]) -> Sequence[int]:
    return [*reserve((), tokens, ledger).held.values()]


def test_a_reservation_counts_until_its_settlement_replaces_it_by_the_used_tokens() -> None:
    first, second = [reserve((KEY,), 40, {}) for _ in range(2)]
    refused = refuse(40)
    assert (refused.scope, refused.is_token_limit, refused.used) == (KEY, True, 80)
    assert 0 < refused.retry_after <= 60

    settle(first, 10)
    assert counts() == [(50, 1)]
    reserve((KEY,), 50, {})
    settle(second, 60)  # more than it had reserved
    assert counts() == [(120, 1)]
    refuse(1)


def test_concurrent_requests_are_limited() -> None:
    running = [reserve((KEY,), 1, {}) for _ in range(3)]
    refused = refuse(1)
    assert (refused.is_token_limit, refused.used, refused.retry_after) == (False, 3, 1)
    settle(running[0], 1)
    reserve((KEY,), 1, {})


def test_a_refusal_by_one_scope_reserves_nothing_in_the_others() -> None:
    reserve((USER,), 90, {})
    refused = refuse(70, KEY, USER)
    assert (refused.scope, refused.used) == (USER, 90)
    with pytest.raises(MonthlyQuotaExceeded):
        reserve((KEY,), 20, {QUOTA: 90})
    assert counts(KEY, USER) == [(0, 0), (90, 1)]


def test_settling_with_zero_tokens_returns_the_reservation() -> None:
    settle(reserve((KEY, USER), 100, {}), 0)
    assert read_budgets([KEY, USER]) == [BudgetState(0, 0, 0), BudgetState(0, 0, 0)]


def test_a_request_above_the_whole_limit_is_accepted_while_nothing_else_counts() -> None:
    large = reserve((KEY,), 1_000_000, {})
    assert counts() == [(100, 1)]
    refuse(1)
    settle(large, 0)
    settle(reserve((KEY,), 1, {}), 1)
    refuse(1_000_000)


@pytest.mark.parametrize("zero_limit", [LimitScope("key:0", 0, 0, 5), LimitScope("key:0", 0, 5, 0)])
@pytest.mark.parametrize("tokens", [0, 1])
def test_a_limit_of_zero_refuses_every_request(zero_limit: LimitScope, tokens: int) -> None:
    refuse(tokens, zero_limit)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    settings.REDIS_URL = ""
    monkeypatch.setattr(counters, "local_counters", LocalCounters(clock=clock.monotonic))
    monkeypatch.setattr(reservations, "time", clock)
    return clock


def test_used_tokens_expire_with_the_window(clock: Clock) -> None:
    settle(reserve((KEY,), 100, {}), 100)
    clock.now += 59
    assert (counts(), refuse(1).retry_after) == ([(100, 0)], 1)
    clock.now += 1
    assert counts() == [(0, 0)]
    reserve((KEY,), 100, {})


def test_a_request_longer_than_the_window_counts_until_it_ends(clock: Clock) -> None:
    reservation = reserve((KEY,), 80, {})
    for _ in range(10):
        clock.now += 20
        renew(reservation)
    assert counts() == [(80, 1)]
    settle(reservation, 90)
    assert counts() == [(0, 0)]


def test_after_a_process_dies_its_slots_are_free_and_the_window_frees_its_tokens(clock: Clock) -> None:
    dead, alive = [reserve((KEY,), 40, {QUOTA: 0}) for _ in range(2)]
    for _ in range(2):
        clock.now += 15
        renew(alive)
    assert counts() == [(80, 1)]
    assert held(1, {QUOTA: 0}) == [41]
    clock.now += 30
    renew(alive)
    assert counts() == [(0, 0)]  # both have ended by now
    settle(dead, 40)
    settle(alive, 40)
    assert counts() == [(0, 0)]


def test_the_wait_lasts_until_enough_of_the_oldest_tokens_expire(clock: Clock) -> None:
    settle(reserve((KEY,), 50, {}), 50)
    clock.now += 10
    settle(reserve((KEY,), 50, {}), 50)
    assert (refuse(30).retry_after, refuse(80).retry_after) == (50, 60)


def test_reservations_and_the_ledgers_tokens_count_together_in_a_month() -> None:
    assert held(30, {QUOTA: 60}) == [30]
    with pytest.raises(MonthlyQuotaExceeded) as caught:
        reserve((), 11, {QUOTA: 60})
    assert (caught.value.quota, caught.value.used) == (QUOTA, 90)
    assert held(10, {QUOTA: 60}) == [40]


def test_a_months_tokens_are_held_until_they_are_ended() -> None:
    reservation = reserve((KEY,), 90, {QUOTA: 0})
    settle(reservation, 10)
    with pytest.raises(MonthlyQuotaExceeded):
        reserve((), 50, {QUOTA: 0})
    end_months(reservation)
    assert held(50, {QUOTA: 10}) == [50]


def test_two_quotas_are_reserved_together_or_not_at_all() -> None:
    with pytest.raises(MonthlyQuotaExceeded) as caught:
        reserve((), 10, {QUOTA: 0, OTHER: 45})
    assert (caught.value.quota, caught.value.used) == (OTHER, 45)
    assert held(10, {QUOTA: 0, OTHER: 40}) == [10, 10]
    assert held(90, {QUOTA: 0}) == [100]
