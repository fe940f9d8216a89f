"""Rate limits: exact over threads and processes, and effective while Redis is down."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pytest_django import Settings

from shared.api.errors import ApiError
from shared.api.limits.rate_limits import (
    LocalSlidingWindow,
    RateLimitDecision,
    RedisSlidingWindow,
    address_key,
    hit,
    raise_if_limited,
    rate_limit_headers,
    strictest,
)
from shared.observability.metrics import render
from tests.shared.observability.scraped import Scrape, grown

pytestmark = pytest.mark.no_database

WINDOWS = ["redis", "local"]

# Run by several processes: make this many hits at once, and print how many were allowed.
HITTER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from shared.api.limits.rate_limits import RedisSlidingWindow
window = RedisSlidingWindow(sys.argv[1])
sys.stdin.readline()
with ThreadPoolExecutor(20) as pool:
    hits = [pool.submit(window.hit, "r2", limit=100, window_s=60) for _ in range(200)]
print(sum(hit.result().allowed for hit in hits))
"""


@pytest.fixture(params=WINDOWS)
def window(request: pytest.FixtureRequest) -> LocalSlidingWindow | RedisSlidingWindow:
    return LocalSlidingWindow() if request.param == "local" else RedisSlidingWindow(os.environ["REDIS_URL"])


def test_r2_exactly_the_limit_of_hits_from_many_threads_is_allowed(
    window: LocalSlidingWindow | RedisSlidingWindow,
) -> None:
    with ThreadPoolExecutor(20) as pool:
        decisions = list(pool.map(lambda _: window.hit("a", limit=50, window_s=60), range(400)))
    assert sum(decision.allowed for decision in decisions) == 50


def test_r2_exactly_the_limit_of_hits_from_many_processes_is_allowed() -> None:
    command = [sys.executable, "-c", HITTER, os.environ["REDIS_URL"]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    counts = [int(process.communicate("go\n", timeout=60)[0]) for process in processes]
    assert sum(counts) == 100


def test_hits_are_allowed_again_after_the_window_slides(window: LocalSlidingWindow | RedisSlidingWindow) -> None:
    first = [window.hit("a", limit=3, window_s=1).allowed for _ in range(5)]
    time.sleep(1.1)
    second = [window.hit("a", limit=3, window_s=1).allowed for _ in range(5)]
    assert first == second == [True, True, True, False, False]


def test_keys_do_not_share_a_window(window: LocalSlidingWindow | RedisSlidingWindow) -> None:
    assert window.hit("a", limit=1, window_s=60).allowed
    assert window.hit("b", limit=1, window_s=60).allowed
    assert not window.hit("a", limit=1, window_s=60).allowed


def test_several_counters_count_a_hit_all_or_none(window: LocalSlidingWindow | RedisSlidingWindow) -> None:
    both = {"names": ["a", "b"], "limits": [3, 2], "window_s": 60}
    assert [[one.remaining for one in window.hit_all(**both)] for _ in range(2)] == [[2, 1], [1, 0]]
    refused = window.hit_all(**both)
    assert [(one.allowed, one.remaining) for one in refused] == [(True, 1), (False, 0)]
    assert strictest(refused) == refused[1]
    assert window.hit("a", limit=3, window_s=60).allowed
    assert [one.remaining for one in window.hit_all(**both)] == [0, 0]


def test_peeking_counts_nothing(window: LocalSlidingWindow | RedisSlidingWindow) -> None:
    looked = [window.hit_all(["a"], [1], window_s=60, counts=False)[0] for _ in range(3)]
    assert [(one.allowed, one.remaining) for one in looked] == [(True, 1)] * 3
    assert window.hit("a", limit=1, window_s=60).allowed
    assert not window.hit_all(["a"], [1], window_s=60, counts=False)[0].allowed


def test_a_decision_has_the_remaining_hits_and_the_reset_time(window: LocalSlidingWindow | RedisSlidingWindow) -> None:
    decisions = [window.hit("a", limit=2, window_s=30) for _ in range(3)]
    assert [decision.remaining for decision in decisions] == [1, 0, 0]
    assert [decision.limit for decision in decisions] == [2, 2, 2]
    for decision in decisions:
        assert 28 <= decision.reset_after <= 30
        assert 27 <= decision.reset_at - time.time() <= 32


def test_a_limit_of_zero_allows_no_hits(window: LocalSlidingWindow | RedisSlidingWindow) -> None:
    decision = window.hit("a", limit=0, window_s=10)
    assert (decision.allowed, decision.remaining, decision.reset_after) == (False, 0, 10)


def test_the_local_window_discards_expired_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalSlidingWindow, "SWEEP_EVERY", 10)
    window = LocalSlidingWindow()
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for number in range(50):
        window.hit(f"early {number}", limit=1, window_s=10)
    now = 1011.0
    for number in range(60):
        window.hit(f"late {number}", limit=1, window_s=10)
    assert not [name for name in window._hits if name.startswith("early")]


def test_a_refusal_is_a_429_with_rate_limit_headers() -> None:
    refused = RateLimitDecision(allowed=False, limit=10, remaining=0, reset_at=1_800_000_000, reset_after=42)
    with pytest.raises(ApiError) as caught:
        raise_if_limited(refused)
    problem = caught.value.problem
    assert (problem.status, problem.code, problem.details) == (429, "rate_limited", {"retry_after": 42})
    assert problem.headers == {
        "X-RateLimit-Limit": "10",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "1800000000",
        "X-RateLimit-Reset-After": "42",
        "Retry-After": "42",
    }


def test_an_allowed_hit_has_no_retry_after() -> None:
    allowed = RateLimitDecision(allowed=True, limit=10, remaining=9, reset_at=1_800_000_000, reset_after=60)
    raise_if_limited(allowed)
    assert "Retry-After" not in rate_limit_headers(allowed)


def test_r3_without_redis_hits_are_counted_in_this_process(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/one.sock?db=0"
    assert [hit("r3-others", "me", limit=2).allowed for _ in range(4)] == [True, True, False, False]


def test_r3_without_redis_strict_limits_are_refused_with_503(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/two.sock?db=0"
    for _ in range(3):
        with pytest.raises(ApiError) as caught:
            hit("r3-strict", "me", limit=2, strict=True)
        assert caught.value.problem.status == 503
        assert "Retry-After" in caught.value.problem.headers


def test_refusals_and_redis_failures_are_counted_in_metrics(settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/three.sock?db=0"
    before = Scrape(render().decode())
    for _ in range(4):
        hit("told", "me", limit=3)
    after = Scrape(render().decode())

    assert grown(after, before, ["stoa_limit_refusals_total"], limit="told") == [1]
    assert grown(after, before, ["stoa_limit_store_failures_total"]) == [1]  # Redis was not asked again


def test_without_redis_url_this_process_counts(settings: Settings) -> None:
    settings.REDIS_URL = ""
    assert [hit("alone", "me", limit=1, strict=True).allowed for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("", "", True),
    ],
)
def test_a_client_is_one_ipv4_address_or_one_ipv6_network(one: str, other: str, same: bool) -> None:
    assert (address_key(one) == address_key(other)) is same
