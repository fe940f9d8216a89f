"""Tokens a minute and requests at once: the same in Redis and in one process, whatever comes in whatever order."""

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

from inference.usage.budgets import Held, RedisBudget, Refusal, Settlement, State, retry_after
from inference.usage.limits import Scope
from inference.usage.local_budget import LocalBudget

Budget = LocalBudget | RedisBudget
KEY, USER = Scope("key:1", 0, 100, 3), Scope("user:1", 0, 150, 4)
_names = itertools.count()

# One process of several: so many reservations at once, then how many were let in.
CROWD = """
import os, secrets, sys
from concurrent.futures import ThreadPoolExecutor
import django
django.setup()
from inference.usage.budgets import RedisBudget
from inference.usage.limits import Scope
budget = RedisBudget(os.environ["REDIS_URL"])
scopes = [Scope("key:9", 0, 1000, 10_000), Scope("user:9", 0, 100_000, 10_000)]
sys.stdin.readline()
with ThreadPoolExecutor(10) as pool:
    asked = [pool.submit(budget.reserve, secrets.token_hex(8), scopes, 7) for _ in range(200)]
print(sum(one.result() is None for one in asked))
"""


def make(kind: str, *, window_s: float = 60, lease_s: float = 30) -> Budget:
    if kind == "local":
        return LocalBudget(window_s=window_s, lease_s=lease_s)
    return RedisBudget(os.environ["REDIS_URL"], window_s=window_s, lease_s=lease_s)


@pytest.fixture(params=["redis", "local"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def budget(kind: str) -> Budget:
    return make(kind)


def reserve(budget: Budget, tokens: int, *scopes: Scope) -> Held | Refusal:
    """A new reservation, or why there is none."""
    scopes = scopes or (KEY,)
    held = Held(f"r{next(_names)}", tuple(scope.name for scope in scopes))
    return budget.reserve(held.reservation, scopes, tokens) or held


def settle(budget: Budget, held: Held | Refusal, tokens: int) -> None:
    assert isinstance(held, Held)
    budget.settle([Settlement(held, tokens)])


def counts(budget: Budget, *scopes: Scope) -> list[tuple[int, int]]:
    return [(state.tokens, state.running) for state in budget.state(scopes or (KEY,))]


def test_reservations_count_until_they_are_settled_and_then_what_was_used(budget: Budget) -> None:
    first, second = reserve(budget, 40), reserve(budget, 40)
    refused = reserve(budget, 40)
    assert isinstance(refused, Refusal)
    assert (refused.scope, refused.is_tokens, refused.used) == (KEY, True, 80)
    assert 0 < refused.wait_s <= 60

    settle(budget, first, 10)
    assert counts(budget) == [(50, 1)]
    assert isinstance(reserve(budget, 50), Held)
    settle(budget, second, 60)  # more than it had reserved
    assert counts(budget) == [(120, 1)]
    assert isinstance(reserve(budget, 1), Refusal)


def test_no_more_run_at_once_than_may(budget: Budget) -> None:
    running = [reserve(budget, 1) for _ in range(3)]
    refused = reserve(budget, 1)
    assert isinstance(refused, Refusal)
    assert (refused.is_tokens, refused.used, retry_after(refused)) == (False, 3, 1)
    settle(budget, running[0], 1)
    assert isinstance(reserve(budget, 1), Held)


def test_what_one_scope_refuses_takes_nothing_of_the_others(budget: Budget) -> None:
    reserve(budget, 90, USER)
    refused = reserve(budget, 70, KEY, USER)
    assert isinstance(refused, Refusal)
    assert (refused.scope, refused.used) == (USER, 90)
    assert counts(budget, KEY, USER) == [(0, 0), (90, 1)]


def test_what_was_not_used_is_given_back(budget: Budget) -> None:
    settle(budget, reserve(budget, 100, KEY, USER), 0)
    assert budget.state([KEY, USER]) == [State(0, 0, 0), State(0, 0, 0)]


def test_settling_twice_changes_nothing(budget: Budget) -> None:
    held = reserve(budget, 60)
    for _ in range(3):
        settle(budget, held, 30)
    assert counts(budget) == [(30, 0)]


def test_more_than_the_whole_limit_comes_when_nothing_else_counts(budget: Budget) -> None:
    large = reserve(budget, 1_000_000)
    assert counts(budget) == [(100, 1)]
    assert isinstance(reserve(budget, 1), Refusal)
    settle(budget, large, 0)
    settle(budget, reserve(budget, 1), 1)
    assert isinstance(reserve(budget, 1_000_000), Refusal)


@pytest.mark.parametrize("nothing", [Scope("key:0", 0, 0, 5), Scope("key:0", 0, 5, 0)])
def test_a_limit_of_none_lets_nobody_in(budget: Budget, nothing: Scope) -> None:
    assert isinstance(reserve(budget, 1, nothing), Refusal)


def test_a_minute_after_it_came_it_counts_no_more(kind: str) -> None:
    budget = make(kind, window_s=3.0)
    settle(budget, reserve(budget, 100), 100)
    refused = reserve(budget, 1)
    assert isinstance(refused, Refusal)
    assert refused.wait_s <= 3.0
    time.sleep(3.1)
    assert counts(budget) == [(0, 0)]
    assert isinstance(reserve(budget, 100), Held)


def test_what_runs_longer_than_a_minute_counts_until_its_end(kind: str) -> None:
    budget = make(kind, window_s=0.5)
    held = reserve(budget, 80)
    time.sleep(0.7)
    assert counts(budget) == [(80, 1)]
    settle(budget, held, 90)
    assert counts(budget) == [(0, 0)]


def test_of_a_process_that_died_places_come_back_with_the_lease_and_tokens_with_the_minute(kind: str) -> None:
    budget = make(kind, window_s=5.0, lease_s=1.5)
    dead, alive = reserve(budget, 40), reserve(budget, 40)
    assert isinstance(alive, Held)
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


def test_the_oldest_that_must_leave_says_how_long_to_wait(kind: str) -> None:
    budget = make(kind, window_s=30)
    settle(budget, reserve(budget, 50), 50)
    time.sleep(1.2)
    settle(budget, reserve(budget, 50), 50)
    soon, late = reserve(budget, 30), reserve(budget, 80)
    assert isinstance(soon, Refusal)
    assert isinstance(late, Refusal)
    assert late.wait_s - soon.wait_s > 1


def test_of_many_threads_exactly_as_many_as_fit_are_let_in(budget: Budget) -> None:
    wide = Scope("key:2", 0, 1000, 10_000)
    with ThreadPoolExecutor(20) as pool:
        let_in = list(pool.map(lambda _: isinstance(reserve(budget, 7, wide), Held), range(400)))
    assert sum(let_in) == 142
    assert counts(budget, wide) == [(994, 142)]


def test_of_many_processes_exactly_as_many_as_fit_are_let_in() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", CROWD]
    processes = [subprocess.Popen(command, env=os.environ, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    assert sum(int(process.communicate("go\n", timeout=100)[0]) for process in processes) == 142


def test_the_local_budget_forgets_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalBudget, "SWEEP_EVERY", 10)
    now = 0.0
    budget = LocalBudget(clock=lambda: now)
    for number in range(50):
        reserve(budget, 1, Scope(f"early:{number}", 0, 10, 10))
    now = 100.0
    for number in range(60):
        reserve(budget, 1, Scope(f"late:{number}", 0, 10, 10))
    assert not [name for name in budget._scopes if name.startswith("early")]


SCOPES = {"key": (KEY,), "both": (KEY, USER), "user": (USER,)}


class Limits(RuleBasedStateMachine):
    """Redis and its twin are asked the same, and a plain count on the side says what they have to answer."""

    held = Bundle("held")

    @initialize()
    def begin(self) -> None:
        run = next(_names)
        self.scopes = {
            name: tuple(Scope(f"{scope.name}-{run}", 0, scope.tokens, scope.concurrency) for scope in scopes)
            for name, scopes in SCOPES.items()
        }
        self.budgets: list[Budget] = [make("redis", window_s=3600), make("local", window_s=3600)]
        self.counted: dict[str, dict[str, tuple[int, bool]]] = {}

    @rule(target=held, whose=st.sampled_from(sorted(SCOPES)), tokens=st.integers(0, 170))
    def reserve(self, whose: str, tokens: int) -> object:
        scopes = self.scopes[whose]
        held = Held(f"r{next(_names)}", tuple(scope.name for scope in scopes))
        answers = [budget.reserve(held.reservation, scopes, tokens) for budget in self.budgets]
        assert len({(one.scope, one.is_tokens, one.used) if one else None for one in answers}) == 1
        fits = all(self.fits(scope, tokens) for scope in scopes)
        assert (answers[0] is None) == fits
        if not fits:
            return multiple()
        for scope in scopes:
            self.counted.setdefault(scope.name, {})[held.reservation] = (min(tokens, scope.tokens), True)
        return held

    @rule(held=consumes(held), tokens=st.integers(0, 300), times=st.integers(1, 2))
    def settle(self, held: Held, tokens: int, times: int) -> None:
        for budget in self.budgets:
            budget.settle([Settlement(held, tokens)] * times)
        for name in held.names:
            self.counted[name][held.reservation] = (tokens, False)

    @rule(held=held)
    def renew(self, held: Held) -> None:
        for budget in self.budgets:
            budget.renew([held])

    @invariant()
    def both_count_alike(self) -> None:
        for scope in self.scopes["both"] if hasattr(self, "scopes") else ():
            expected = self.sums(scope)
            assert [counts(budget, scope)[0] for budget in self.budgets] == [expected] * 2
            assert expected[1] <= scope.concurrency

    def fits(self, scope: Scope, tokens: int) -> bool:
        used, running = self.sums(scope)
        return running < scope.concurrency and used + min(tokens, scope.tokens) <= scope.tokens

    def sums(self, scope: Scope) -> tuple[int, int]:
        entries = self.counted.get(scope.name, {}).values()
        return sum(tokens for tokens, _ in entries), sum(running for _, running in entries)


Limits.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
test_redis_and_its_twin_never_let_more_in_than_fits = Limits.TestCase
