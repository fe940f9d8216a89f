"""Counters in Redis and in one process: the same contract, and the same numbers for any order of operations."""

import itertools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from shared.api.limits.counters import PEEK, Change, CounterStore, Entry, LocalCounters, RedisCounters

pytestmark = pytest.mark.no_database

_ids = map(str, itertools.count())

# Run by several processes: add this many entries at once, and print how many were added.
ADDER = """
import secrets, sys
from concurrent.futures import ThreadPoolExecutor
from shared.api.limits.counters import Entry, RedisCounters
store = RedisCounters(sys.argv[1])
entries = [Entry("r2", 1000, 60, 7), Entry("r2 wide", 100_000, 60, 7)]
sys.stdin.readline()
with ThreadPoolExecutor(10) as pool:
    adding = [pool.submit(store.add, secrets.token_hex(8), entries) for _ in range(200)]
print(sum(one.result()[0].fits for one in adding))
"""


@pytest.fixture(params=["redis", "local"])
def store(request: pytest.FixtureRequest) -> CounterStore:
    return LocalCounters() if request.param == "local" else RedisCounters(os.environ["REDIS_URL"])


def numbers(store: CounterStore, entry_id: str, *entries: Entry) -> list[tuple[bool, int]]:
    """Add, and return whether each entry fits and what its counter has."""
    return [(count.fits, count.used) for count in store.add(entry_id, entries)]


def used(store: CounterStore, *names: str) -> list[int]:
    return [count.used for count in store.add(PEEK, [Entry(name, 1, 60) for name in names])]


def wait_until_used(store: CounterStore, name: str, expected: int) -> float:
    """Return the time when a counter has this sum."""
    deadline = time.monotonic() + 60
    while used(store, name) != [expected]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return time.monotonic()


def test_entries_count_with_their_weight_until_they_end(store: CounterStore) -> None:
    began = time.monotonic()
    assert numbers(store, "first", Entry("a", 100, 2, 40)) == [(True, 40)]
    store.add("second", [Entry("a", 100, 60, 60)])
    assert wait_until_used(store, "a", 60) - began >= 2
    assert numbers(store, "third", Entry("a", 100, 60, 41)) == [(False, 60)]
    assert numbers(store, "third", Entry("a", 100, 60, 40)) == [(True, 100)]


def test_an_entry_is_added_to_all_counters_or_to_none(store: CounterStore) -> None:
    both = Entry("a", 3, 60), Entry("b", 2, 60)
    assert [numbers(store, entry_id, *both) for entry_id in "12"] == [[(True, 1), (True, 1)], [(True, 2), (True, 2)]]
    assert numbers(store, "3", *both) == [(True, 2), (False, 2)]
    assert numbers(store, "4", both[0]) == [(True, 3)]
    assert used(store, "a", "b") == [3, 2]


def test_peeking_adds_nothing(store: CounterStore) -> None:
    assert [numbers(store, PEEK, Entry("a", 1, 60)) for _ in range(3)] == [[(True, 0)]] * 3
    assert numbers(store, "1", Entry("a", 1, 60)) == [(True, 1)]
    assert numbers(store, PEEK, Entry("a", 1, 60)) == [(False, 1)]


def test_an_addition_that_is_sent_twice_counts_once(store: CounterStore) -> None:
    for _ in range(2):
        assert numbers(store, "same", Entry("a", 5, 60, 5)) == [(True, 5)]
    assert used(store, "a") == [5]


@pytest.mark.parametrize(("weight", "limit", "fits"), [(1, 0, False), (0, 0, True), (1, -5, False), (3, 3, True)])
def test_an_entry_fits_up_to_the_limit(store: CounterStore, weight: int, limit: int, fits: bool) -> None:
    assert numbers(store, "1", Entry("a", limit, 60, weight)) == [(fits, weight if fits else 0)]


def test_a_change_sets_the_weight_and_the_end_and_may_be_repeated(store: CounterStore) -> None:
    entry, other = Entry("a", 100, 60, 60), Entry("a", 100, 60, 10)
    store.add("1", [entry])
    store.add("2", [other])
    for _ in range(3):
        store.change([Change("1", entry, 30, 60)])
    assert used(store, "a") == [40]
    store.change([Change("1", entry, 60, 60), Change("unknown", entry, 60, 60)])  # it has the weight 30 by now
    assert used(store, "a") == [40]
    store.change([Change("2", other, 120, 60)])  # more than the limit
    assert numbers(store, "3", Entry("a", 100, 60)) == [(False, 150)]


@pytest.mark.parametrize(("weight", "seconds"), [(0, 60), (60, 0), (60, -1)])
def test_a_change_without_a_weight_or_seconds_ends_an_entry(store: CounterStore, weight: int, seconds: float) -> None:
    entry = Entry("a", 100, 60, 60)
    store.add("1", [entry])
    store.change([Change("1", entry, weight, seconds)])
    assert used(store, "a") == [0]


def test_an_entry_that_is_extended_outlives_the_others_and_an_ended_one_stays_ended(store: CounterStore) -> None:
    entry = Entry("a", 100, 3)
    store.add("dead", [entry])
    store.add("alive", [entry])
    store.change([Change("alive", entry, 1, 60)])
    wait_until_used(store, "a", 1)
    store.change([Change("dead", entry, 1, 60)])
    assert used(store, "a") == [1]


def test_the_wait_lasts_until_enough_has_ended(store: CounterStore) -> None:
    def wait(weight: int, limit: int = 100) -> float:
        return store.add(PEEK, [Entry("a", limit, 60, weight)])[0].wait_seconds

    assert wait(1) == 60
    for seconds, weight in ((30, 50), (10, 20), (50, 30)):
        store.add(next(_ids), [Entry("a", 100, seconds, weight)])
    assert [round(wait(weight)) for weight in (1, 20, 21, 70, 71, 100, 101)] == [10, 10, 30, 30, 50, 50, 60]
    assert round(wait(1, limit=1000)) == 10  # until the oldest ends, where there is room


def test_threads_add_exactly_what_fits(store: CounterStore) -> None:
    with ThreadPoolExecutor(20) as pool:
        added = list(pool.map(lambda _: store.add(next(_ids), [Entry("a", 1000, 60, 7)])[0].fits, range(400)))
    assert sum(added) == 142
    assert used(store, "a") == [994]


def test_r2_processes_add_exactly_what_fits() -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", ADDER, os.environ["REDIS_URL"]]
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
    assert sum(int(process.communicate("go\n", timeout=100)[0]) for process in processes) == 142


def test_keys_in_redis_expire_after_their_last_entry() -> None:
    store = RedisCounters(os.environ["REDIS_URL"])
    store.add("1", [Entry("a", 10, 300)])
    store.add("2", [Entry("a", 10, 5)])
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        left: list[int] = [client.ttl(key) for key in client.keys("*counter:a*")]
    assert len(left) == 2
    assert all(300 <= seconds <= 420 for seconds in left)


def test_the_local_store_forgets_counters_whose_entries_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCounters, "SWEEP_INTERVAL", 10)
    now = 0.0
    store = LocalCounters(clock=lambda: now)
    for number in range(50):
        store.add("1", [Entry(f"early {number}", 10, 60)])
    now = 100.0
    for number in range(60):
        store.add("1", [Entry(f"late {number}", 10, 60)])
    assert len(store) <= 60


LIMITS = {"key": 100, "user": 150}
COUNTERS = {"key": ["key"], "both": ["key", "user"], "user": ["user"]}


class CountersMachine(RuleBasedStateMachine):
    """Both stores under the same operations, compared with each other and with a plain model."""

    added = Bundle("added")

    @initialize()
    def begin(self) -> None:
        self.run = next(_ids)
        self.stores: list[CounterStore] = [RedisCounters(os.environ["REDIS_URL"]), LocalCounters()]
        self.weights: dict[str, dict[str, int]] = {name: {} for name in LIMITS}

    def entry(self, name: str, weight: int) -> Entry:
        return Entry(f"{name}-{self.run}", LIMITS[name], 3600, weight)

    @rule(target=added, names=st.sampled_from(sorted(COUNTERS)), weight=st.integers(0, 170))
    def add(self, names: str, weight: int) -> object:
        entry_id, entries = next(_ids), [self.entry(name, weight) for name in COUNTERS[names]]
        fits = [sum(self.weights[name].values()) + weight <= LIMITS[name] for name in COUNTERS[names]]
        if all(fits):
            for name in COUNTERS[names]:
                self.weights[name][entry_id] = weight
        expected = [(one, sum(self.weights[name].values())) for one, name in zip(fits, COUNTERS[names], strict=True)]
        assert [numbers(store, entry_id, *entries) for store in self.stores] == [expected] * 2
        return (entry_id, names, weight) if all(fits) else multiple()

    @rule(one=consumes(added), weight=st.integers(0, 300), seconds=st.sampled_from([0, 3600]), times=st.integers(1, 2))
    def change(self, one: tuple[str, str, int], weight: int, seconds: float, times: int) -> None:
        entry_id, names, before = one
        changes = [Change(entry_id, self.entry(name, before), weight, seconds) for name in COUNTERS[names]]
        for store in self.stores:
            store.change(changes * times)
        for name in COUNTERS[names] if before else ():
            self.weights[name][entry_id] = weight if seconds else 0

    @rule(one=added)
    def extend(self, one: tuple[str, str, int]) -> None:
        entry_id, names, weight = one
        for store in self.stores:
            store.change([Change(entry_id, self.entry(name, weight), weight, 3600) for name in COUNTERS[names]])

    @invariant()
    def stores_agree(self) -> None:
        if hasattr(self, "run"):
            expected = [sum(self.weights[name].values()) for name in LIMITS]
            assert [used(store, *(f"{name}-{self.run}" for name in LIMITS)) for store in self.stores] == [expected] * 2


CountersMachine.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
test_both_stores_agree_with_a_plain_model = CountersMachine.TestCase
