"""Token budgets: Redis and the local one agree, for any order of reservations, settlements and renewals."""

import itertools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from inference.usage.scopes import LimitScope
from inference.usage.token_budget import (
    BudgetRefusal,
    BudgetReservation,
    BudgetSettlement,
    BudgetState,
    LocalTokenBudget,
    RedisTokenBudget,
)

pytestmark = pytest.mark.no_database

AnyBudget = LocalTokenBudget | RedisTokenBudget
KEY, USER = LimitScope("key:1", 0, 100, 3), LimitScope("user:1", 0, 150, 4)
_names = itertools.count()

# One of several processes: makes reservations concurrently, then prints how many were accepted.
CONCURRENT_RESERVATIONS = """
import os, secrets, sys
from concurrent.futures import ThreadPoolExecutor
import django
django.setup()
from inference.usage.token_budget import RedisTokenBudget
from inference.usage.scopes import LimitScope
budget = RedisTokenBudget(os.environ["REDIS_URL"])
scopes = [LimitScope("key:9", 0, 1000, 10_000), LimitScope("user:9", 0, 100_000, 10_000)]
sys.stdin.readline()
with ThreadPoolExecutor(10) as pool:
    reservations = [pool.submit(budget.reserve, secrets.token_hex(8), scopes, 7) for _ in range(200)]
print(sum(one.result() is None for one in reservations))
"""


def make(kind: str, *, window_seconds: float = 60, lease_seconds: float = 30) -> AnyBudget:
    if kind == "local":
        return LocalTokenBudget(window_seconds=window_seconds, lease_seconds=lease_seconds)
    return RedisTokenBudget(os.environ["REDIS_URL"], window_seconds=window_seconds, lease_seconds=lease_seconds)


@pytest.fixture(params=["redis", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def budget(kind: str) -> AnyBudget:
    return make(kind)


def reserve(budget: AnyBudget, tokens: int, *scopes: LimitScope) -> BudgetReservation | BudgetRefusal:
    """Make a new reservation, or return the refusal."""
    scopes = scopes or (KEY,)
    reservation = BudgetReservation(f"r{next(_names)}", tuple(scope.name for scope in scopes))
    return budget.reserve(reservation.id, scopes, tokens) or reservation


def settle(budget: AnyBudget, reservation: BudgetReservation | BudgetRefusal, tokens: int) -> None:
    assert isinstance(reservation, BudgetReservation)
    budget.settle([BudgetSettlement(reservation, tokens)])


def counts(budget: AnyBudget, *scopes: LimitScope) -> list[tuple[int, int]]:
    return [(state.tokens, state.running) for state in budget.state(scopes or (KEY,))]


def test_a_reservation_counts_until_its_settlement_replaces_it_by_the_used_tokens(budget: AnyBudget) -> None:
    first, second = reserve(budget, 40), reserve(budget, 40)
    refused = reserve(budget, 40)
    assert isinstance(refused, BudgetRefusal)
    assert (refused.scope, refused.is_token_limit, refused.used) == (KEY, True, 80)
    assert 0 < refused.wait_seconds <= 60

    settle(budget, first, 10)
    assert counts(budget) == [(50, 1)]
    assert isinstance(reserve(budget, 50), BudgetReservation)
    settle(budget, second, 60)  # more than it had reserved
    assert counts(budget) == [(120, 1)]
    assert isinstance(reserve(budget, 1), BudgetRefusal)


def test_concurrent_requests_are_limited(budget: AnyBudget) -> None:
    running = [reserve(budget, 1) for _ in range(3)]
    refused = reserve(budget, 1)
    assert isinstance(refused, BudgetRefusal)
    assert (refused.is_token_limit, refused.used, refused.retry_after) == (False, 3, 1)
    settle(budget, running[0], 1)
    assert isinstance(reserve(budget, 1), BudgetReservation)


def test_a_refusal_by_one_scope_reserves_nothing_in_the_others(budget: AnyBudget) -> None:
    reserve(budget, 90, USER)
    refused = reserve(budget, 70, KEY, USER)
    assert isinstance(refused, BudgetRefusal)
    assert (refused.scope, refused.used) == (USER, 90)
    assert counts(budget, KEY, USER) == [(0, 0), (90, 1)]


def test_settling_with_zero_tokens_returns_the_reservation(budget: AnyBudget) -> None:
    settle(budget, reserve(budget, 100, KEY, USER), 0)
    assert budget.state([KEY, USER]) == [BudgetState(0, 0, 0), BudgetState(0, 0, 0)]


def test_settlement_is_idempotent(budget: AnyBudget) -> None:
    reservation = reserve(budget, 60)
    for _ in range(3):
        settle(budget, reservation, 30)
    assert counts(budget) == [(30, 0)]


def test_a_request_above_the_whole_limit_is_accepted_while_nothing_else_counts(budget: AnyBudget) -> None:
    large = reserve(budget, 1_000_000)
    assert counts(budget) == [(100, 1)]
    assert isinstance(reserve(budget, 1), BudgetRefusal)
    settle(budget, large, 0)
    settle(budget, reserve(budget, 1), 1)
    assert isinstance(reserve(budget, 1_000_000), BudgetRefusal)


@pytest.mark.parametrize("zero_limit", [LimitScope("key:0", 0, 0, 5), LimitScope("key:0", 0, 5, 0)])
def test_a_limit_of_zero_refuses_every_request(budget: AnyBudget, zero_limit: LimitScope) -> None:
    assert isinstance(reserve(budget, 1, zero_limit), BudgetRefusal)


def test_used_tokens_expire_with_the_window(kind: str) -> None:
    budget = make(kind, window_seconds=3.0)
    settle(budget, reserve(budget, 100), 100)
    refused = reserve(budget, 1)
    assert isinstance(refused, BudgetRefusal)
    assert refused.wait_seconds <= 3.0
    time.sleep(3.1)
    assert counts(budget) == [(0, 0)]
    assert isinstance(reserve(budget, 100), BudgetReservation)


def test_a_request_longer_than_the_window_counts_until_it_ends(kind: str) -> None:
    budget = make(kind, window_seconds=0.5)
    reservation = reserve(budget, 80)
    time.sleep(0.7)
    assert counts(budget) == [(80, 1)]
    settle(budget, reservation, 90)
    assert counts(budget) == [(0, 0)]


def test_after_a_process_dies_leases_free_concurrency_and_the_window_frees_tokens(kind: str) -> None:
    budget = make(kind, window_seconds=5.0, lease_seconds=1.5)
    dead, alive = reserve(budget, 40), reserve(budget, 40)
    assert isinstance(alive, BudgetReservation)
    for _ in range(4):
        time.sleep(0.5)
        budget.renew([alive])
    assert counts(budget) == [(80, 1)]
    time.sleep(3.5)
    budget.renew([alive])
    assert counts(budget) == [(0, 0)]  # the lease of both has ended by now
    settle(budget, dead, 40)
    settle(budget, alive, 40)
    assert counts(budget) == [(0, 0)]


def test_the_wait_lasts_until_enough_of_the_oldest_tokens_expire(kind: str) -> None:
    budget = make(kind, window_seconds=30)
    settle(budget, reserve(budget, 50), 50)
    time.sleep(1.2)
    settle(budget, reserve(budget, 50), 50)
    soon, late = reserve(budget, 30), reserve(budget, 80)
    assert isinstance(soon, BudgetRefusal)
    assert isinstance(late, BudgetRefusal)
    assert late.wait_seconds - soon.wait_seconds > 1


def test_concurrent_threads_reserve_exactly_what_fits(budget: AnyBudget) -> None:
    wide = LimitScope("key:2", 0, 1000, 10_000)
    with ThreadPoolExecutor(20) as pool:
        accepted = list(pool.map(lambda _: isinstance(reserve(budget, 7, wide), BudgetReservation), range(400)))
    assert sum(accepted) == 142
    assert counts(budget, wide) == [(994, 142)]


def test_concurrent_processes_reserve_exactly_what_fits() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", CONCURRENT_RESERVATIONS]
    processes = [subprocess.Popen(command, env=os.environ, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    assert sum(int(process.communicate("go\n", timeout=100)[0]) for process in processes) == 142


def test_the_local_budget_drops_expired_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalTokenBudget, "SWEEP_INTERVAL", 10)
    now = 0.0
    budget = LocalTokenBudget(clock=lambda: now)
    for number in range(50):
        reserve(budget, 1, LimitScope(f"early:{number}", 0, 10, 10))
    now = 100.0
    for number in range(60):
        reserve(budget, 1, LimitScope(f"late:{number}", 0, 10, 10))
    assert not [name for name in budget._scopes if name.startswith("early")]


SCOPES = {"key": (KEY,), "both": (KEY, USER), "user": (USER,)}


class BudgetMachine(RuleBasedStateMachine):
    """Both budgets under the same operations, compared with each other and with a plain model."""

    reservations = Bundle("reservations")

    @initialize()
    def begin(self) -> None:
        run = next(_names)
        self.scopes = {
            name: tuple(
                LimitScope(f"{scope.name}-{run}", 0, scope.tokens_per_minute, scope.max_concurrency) for scope in scopes
            )
            for name, scopes in SCOPES.items()
        }
        self.budgets: list[AnyBudget] = [make("redis", window_seconds=3600), make("local", window_seconds=3600)]
        self.counted: dict[str, dict[str, tuple[int, bool]]] = {}

    @rule(target=reservations, scope_set=st.sampled_from(sorted(SCOPES)), tokens=st.integers(0, 170))
    def reserve(self, scope_set: str, tokens: int) -> object:
        scopes = self.scopes[scope_set]
        reservation = BudgetReservation(f"r{next(_names)}", tuple(scope.name for scope in scopes))
        refusals = [budget.reserve(reservation.id, scopes, tokens) for budget in self.budgets]
        assert len({(one.scope, one.is_token_limit, one.used) if one else None for one in refusals}) == 1
        fits = all(self.fits(scope, tokens) for scope in scopes)
        assert (refusals[0] is None) == fits
        if not fits:
            return multiple()
        for scope in scopes:
            self.counted.setdefault(scope.name, {})[reservation.id] = (min(tokens, scope.tokens_per_minute), True)
        return reservation

    @rule(reservation=consumes(reservations), tokens=st.integers(0, 300), times=st.integers(1, 2))
    def settle(self, reservation: BudgetReservation, tokens: int, times: int) -> None:
        for budget in self.budgets:
            budget.settle([BudgetSettlement(reservation, tokens)] * times)
        for name in reservation.scope_names:
            self.counted[name][reservation.id] = (tokens, False)

    @rule(reservation=reservations)
    def renew(self, reservation: BudgetReservation) -> None:
        for budget in self.budgets:
            budget.renew([reservation])

    @invariant()
    def budgets_agree(self) -> None:
        for scope in self.scopes["both"] if hasattr(self, "scopes") else ():
            expected = self.sums(scope)
            assert [counts(budget, scope)[0] for budget in self.budgets] == [expected] * 2
            assert expected[1] <= scope.max_concurrency

    def fits(self, scope: LimitScope, tokens: int) -> bool:
        used, running = self.sums(scope)
        return (
            running < scope.max_concurrency and used + min(tokens, scope.tokens_per_minute) <= scope.tokens_per_minute
        )

    def sums(self, scope: LimitScope) -> tuple[int, int]:
        entries = self.counted.get(scope.name, {}).values()
        return sum(tokens for tokens, _ in entries), sum(running for _, running in entries)


BudgetMachine.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
test_redis_and_local_budgets_agree_and_never_exceed_a_limit = BudgetMachine.TestCase
