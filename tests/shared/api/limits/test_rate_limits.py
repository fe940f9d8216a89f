"""Rate limits: exact, and effective while Redis is down. `test_counters` has their stores."""

import time
from typing import Any

import pytest
from pytest_django import Settings

from shared.api.errors import ApiError
from shared.api.limits import rate_limits
from shared.api.limits.rate_limits import (
    RateLimitCounter,
    RateLimitDecision,
    address_key,
    ahit,
    apeek,
    hit,
    raise_if_limited,
    rate_limit_headers,
)
from shared.observability.metrics import render
from tests.shared.observability.scraped import Scrape, grown

pytestmark = pytest.mark.no_database


@pytest.fixture(params=["redis", "local"])
def store(request: pytest.FixtureRequest, settings: Settings) -> None:
    if request.param == "local":
        settings.REDIS_URL = ""


@pytest.mark.usefixtures("store")
class TestHits:
    def test_hits_are_allowed_again_after_the_window_slides(self) -> None:
        first = [hit("a", "me", limit=3, window_s=1).allowed for _ in range(5)]
        time.sleep(1.1)
        second = [hit("a", "me", limit=3, window_s=1).allowed for _ in range(5)]
        assert first == second == [True, True, True, False, False]

    def test_keys_and_buckets_have_windows_of_their_own(self) -> None:
        names = [("b", "me"), ("b", "you"), ("c", "me"), ("b", "me")]
        assert [hit(bucket, key, limit=1).allowed for bucket, key in names] == [True, True, True, False]

    async def test_several_counters_count_a_hit_all_or_none(self) -> None:
        both = RateLimitCounter("one", 3), RateLimitCounter("two", 2)
        assert [(await ahit("d", *both)).remaining for _ in range(2)] == [1, 0]
        refused = await ahit("d", *both)
        assert (refused.allowed, refused.limit, refused.remaining) == (False, 2, 0)
        assert [(one.allowed, one.remaining) for one in await apeek("d", *both)] == [(True, 1), (False, 0)]
        assert (await ahit("d", both[0])).remaining == 0

    def test_a_decision_has_the_remaining_hits_and_the_reset_time(self) -> None:
        decisions = [hit("e", "me", limit=2, window_s=30) for _ in range(3)]
        assert [(one.remaining, one.limit) for one in decisions] == [(1, 2), (0, 2), (0, 2)]
        for decision in decisions:
            assert 28 <= decision.reset_after <= 30
            assert 27 <= decision.reset_at - time.time() <= 32

    def test_a_limit_of_zero_allows_no_hits(self) -> None:
        decision = hit("f", "me", limit=0, window_s=10)
        assert (decision.allowed, decision.remaining, decision.reset_after) == (False, 0, 10)


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


async def test_a_refusal_is_repeated_for_a_second_without_asking_redis(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_URL = "redis://nowhere.invalid"
    asked: list[str] = []
    answers = [
        RateLimitDecision(allowed=False, limit=1, remaining=0, reset_at=1, reset_after=after) for after in (30, 1)
    ]

    def count(bucket: str, hits: Any, **options: Any) -> list[RateLimitDecision]:
        asked.append(bucket)
        return [answers[min(len(asked), 2) - 1]]

    monkeypatch.setattr(rate_limits, "_count_hits", count)
    hit = RateLimitCounter("somebody", 1)
    for _ in range(3):
        assert (await ahit("repeated", hit)).reset_after == 30
    assert len(asked) == 1
    monkeypatch.setattr(rate_limits, "_refusals", {})
    for _ in range(3):  # one that ends within the second is not kept
        assert (await ahit("repeated", hit)).reset_after == 1
    assert len(asked) == 4


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
