"""Reservations in the limits of a request, counted in Redis or in one process."""

import time
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
from shared.api.limits.counters import local_counters

pytestmark = [pytest.mark.no_database, pytest.mark.usefixtures("store")]

KEY, USER = LimitScope("key:1", 0, 100, 3), LimitScope("user:1", 0, 150, 4)
QUOTA = MonthlyQuota("user", 7, 100, date(2026, 11, 1))
OTHER = MonthlyQuota("key", 8, 50, date(2026, 11, 1))


@pytest.fixture(params=["redis", "local"])
def store(request: pytest.FixtureRequest, settings: Settings) -> None:
    local_counters.clear()
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


def test_used_tokens_expire_with_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "WINDOW_SECONDS", 3.0)
    settle(reserve((KEY,), 100, {}), 100)
    assert refuse(1).retry_after <= 3
    time.sleep(3.1)
    assert counts() == [(0, 0)]
    reserve((KEY,), 100, {})


def test_a_request_longer_than_the_window_counts_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "WINDOW_SECONDS", 1.0)
    reservation = reserve((KEY,), 80, {})
    time.sleep(0.3)
    renew(reservation)
    time.sleep(1.0)
    assert counts() == [(80, 1)]
    settle(reservation, 90)
    assert counts() == [(0, 0)]


def test_after_a_process_dies_its_places_are_free_and_the_window_frees_its_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reservations, "WINDOW_SECONDS", 5.0)
    monkeypatch.setattr(reservations, "LEASE_SECONDS", 1.5)
    dead, alive = [reserve((KEY,), 40, {}) for _ in range(2)]
    for _ in range(4):
        time.sleep(0.5)
        renew(alive)
    assert counts() == [(80, 1)]
    time.sleep(3.5)
    renew(alive)
    assert counts() == [(0, 0)]  # both have ended by now
    settle(dead, 40)
    settle(alive, 40)
    assert counts() == [(0, 0)]


def test_the_wait_lasts_until_enough_of_the_oldest_tokens_expire() -> None:
    settle(reserve((KEY,), 50, {}), 50)
    time.sleep(1.2)
    settle(reserve((KEY,), 50, {}), 50)
    assert refuse(80).retry_after - refuse(30).retry_after >= 1


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
