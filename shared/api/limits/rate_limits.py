"""Exact rate limits over a sliding window, counted in Redis for all processes by one script, or in this process.

IP addresses and e-mail addresses are hashed before they are stored.
"""

import asyncio
import hashlib
import ipaddress
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.api.errors import ApiError
from shared.observability import metrics

logger = structlog.get_logger("stoa.limits")

REFUSALS = metrics.Counter("stoa_limit_refusals_total", "Requests that a rate limit refused, by limit.", "limit")
STORE_FAILURES = metrics.Counter("stoa_limit_store_failures_total", "Failures of the Redis server of rate limits.")

STORE_TIMEOUT_SECONDS = 0.5
STORE_COOLDOWN_SECONDS = 1.0  # pause after a failure of Redis

# KEYS: the counters. ARGV: the window in microseconds, a name of this hit ("" to peek), then the limit of each counter.
# It returns 1 or 0 for allowed, then for each counter its hits in the window and the microseconds until the oldest
# leaves it. A hit is counted in all counters or in none.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, hit = tonumber(ARGV[1]), ARGV[2]
local allowed = 1
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
  if redis.call('ZCARD', key) >= tonumber(ARGV[i + 2]) then allowed = 0 end
end
local answer = {allowed}
for _, key in ipairs(KEYS) do
  if allowed == 1 and hit ~= '' then
    redis.call('ZADD', key, now, hit)
    redis.call('PEXPIRE', key, math.ceil(window / 1000))
  end
  local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  answer[#answer + 1] = redis.call('ZCARD', key)
  answer[#answer + 1] = oldest and oldest + window - now or window
end
return answer
"""


@dataclass(frozen=True, kw_only=True)
class RateLimitDecision:
    """Decision on a hit. `reset_after` is the seconds until the window has space again, `reset_at` its Unix time."""

    allowed: bool
    limit: int
    remaining: int
    reset_at: int
    reset_after: int


@dataclass(frozen=True)
class RateLimitCounter:
    """Counter of a rate limit: its bucket, its key and the limit within a window."""

    key: str
    limit: int


def hit(bucket: str, key: str, *, limit: int, window_s: int = 60, strict: bool = False) -> RateLimitDecision:
    """Count one hit of `key` in `bucket`; allow at most `limit` in any `window_s` seconds.

    If Redis is down, count in this process, or raise ApiError 503 if `strict`.
    """
    try:
        return strictest(
            _count_hits(bucket, [RateLimitCounter(key, limit)], window_s=window_s, counts=True, strict=strict)
        )
    except redis.RedisError as error:
        raise ApiError(
            503, "Sign-ins are paused for a moment. Try again shortly.", headers={"Retry-After": "5"}
        ) from error


async def ahit(bucket: str, *counters: RateLimitCounter, window_s: int = 60) -> RateLimitDecision:
    """Count a hit from the event loop, in a thread. Several counters count it all or none.

    Return the decision of the counter that has the least left.
    """
    if not settings.REDIS_URL:
        return strictest(_count_hits(bucket, counters, window_s=window_s, counts=True))
    return strictest(await asyncio.to_thread(_count_hits, bucket, counters, window_s=window_s, counts=True))


async def apeek(bucket: str, *counters: RateLimitCounter, window_s: int = 60) -> list[RateLimitDecision]:
    """Return the decision that each counter would make, without counting a hit."""
    return await asyncio.to_thread(_count_hits, bucket, counters, window_s=window_s, counts=False)


def strictest(decisions: Sequence[RateLimitDecision]) -> RateLimitDecision:
    """Return the decision to report: the refusal that lasts longest, or else the one with the least left."""
    return max(decisions, key=lambda one: (not one.allowed, -one.remaining, one.reset_after))


def _count_hits(
    bucket: str, counters: Sequence[RateLimitCounter], *, window_s: int, counts: bool, strict: bool = False
) -> list[RateLimitDecision]:
    """Return the decisions of the counters. Raise redis.RedisError if `strict` and Redis is down."""
    names = [f"stoa:limit:{bucket}:{_digest(counter.key)}" for counter in counters]
    limits = [counter.limit for counter in counters]
    try:
        counted = _store(settings.REDIS_URL) if settings.REDIS_URL else _local
        decisions = counted.hit_all(names, limits, window_s=window_s, counts=counts)
    except redis.RedisError:
        if strict:
            raise
        decisions = _local.hit_all(names, limits, window_s=window_s, counts=counts)
    if counts and not all(decision.allowed for decision in decisions):
        REFUSALS.add(1, bucket)
    return decisions


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()[:32]


def raise_if_limited(decision: RateLimitDecision) -> None:
    """Raise ApiError 429, with headers that say when to retry, if the hit was refused."""
    if not decision.allowed:
        raise ApiError(
            429,
            f"Too many requests: at most {decision.limit} are allowed. Try again in {decision.reset_after} seconds.",
            details={"retry_after": decision.reset_after},
            headers=rate_limit_headers(decision),
        )


def rate_limit_headers(decision: RateLimitDecision) -> dict[str, str]:
    """Return the headers of a limited response, with `Retry-After` if it was refused."""
    headers = {
        "X-RateLimit-Limit": str(decision.limit),
        "X-RateLimit-Remaining": str(decision.remaining),
        "X-RateLimit-Reset": str(decision.reset_at),
        "X-RateLimit-Reset-After": str(decision.reset_after),
    }
    return headers if decision.allowed else headers | {"Retry-After": str(decision.reset_after)}


def report_store_failure(error: redis.RedisError) -> None:
    """Log that limits are counted per process for a while."""
    STORE_FAILURES.add(1)
    logger.warning("limit_store_unavailable", reason=type(error).__name__)


def address_key(address: str) -> str:
    """Return the rate-limit key of an address: an IPv4 address itself, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _decision(*, limit: int, count: int, reset_s: float, was_counted: bool) -> RateLimitDecision:
    """Return the decision of a counter. `count` includes this hit if it was counted."""
    reset_after = max(1, math.ceil(reset_s))
    return RateLimitDecision(
        allowed=was_counted or count < limit,
        limit=limit,
        remaining=max(0, limit - count),
        reset_at=math.ceil(time.time()) + reset_after,
        reset_after=reset_after,
    )


class RedisSlidingWindow:
    """Counter of all processes. It raises redis.RedisError if Redis fails."""

    def __init__(self, url: str) -> None:
        # One retry, at once, and only after a lost connection: a hit that timed out may have been counted.
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        client = redis.Redis.from_url(
            url, socket_timeout=STORE_TIMEOUT_SECONDS, socket_connect_timeout=STORE_TIMEOUT_SECONDS, retry=retry
        )
        self._script = client.register_script(_SCRIPT)
        self._paused_until = 0.0

    def hit(self, name: str, *, limit: int, window_s: int) -> RateLimitDecision:
        return self.hit_all([name], [limit], window_s=window_s)[0]

    def hit_all(
        self, names: Sequence[str], limits: Sequence[int], *, window_s: int, counts: bool = True
    ) -> list[RateLimitDecision]:
        if time.monotonic() < self._paused_until:
            raise redis.ConnectionError("the limit store did not answer a moment ago")
        hit = secrets.token_hex(8) if counts else ""
        try:
            allowed, *counted = self._script(keys=names, args=[window_s * 1_000_000, hit, *limits])
        except redis.RedisError as error:
            self._paused_until = time.monotonic() + STORE_COOLDOWN_SECONDS
            report_store_failure(error)
            raise
        was_counted = counts and bool(allowed)
        return [
            _decision(limit=limit, count=count, reset_s=reset_us / 1e6, was_counted=was_counted)
            for limit, count, reset_us in zip(limits, counted[::2], counted[1::2], strict=True)
        ]


class LocalSlidingWindow:
    """Counter of this process alone."""

    SWEEP_EVERY = 1000  # hits

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits: dict[str, tuple[float, deque[float]]] = {}
        self._until_sweep = self.SWEEP_EVERY

    def hit(self, name: str, *, limit: int, window_s: int) -> RateLimitDecision:
        return self.hit_all([name], [limit], window_s=window_s)[0]

    def hit_all(
        self, names: Sequence[str], limits: Sequence[int], *, window_s: int, counts: bool = True
    ) -> list[RateLimitDecision]:
        now = time.monotonic()
        with self._lock:
            self._sweep(now)
            windows = [self._window(name, now - window_s) for name in names]
            is_counted = counts and all(len(times) < limit for times, limit in zip(windows, limits, strict=True))
            for name, times in zip(names, windows, strict=True):
                if is_counted:
                    times.append(now)
                    self._hits[name] = (now + window_s, times)
            return [
                _decision(
                    limit=limit,
                    count=len(times),
                    reset_s=times[0] + window_s - now if times else window_s,
                    was_counted=is_counted,
                )
                for times, limit in zip(windows, limits, strict=True)
            ]

    def clear(self) -> None:
        with self._lock:
            self._hits.clear()

    def _window(self, name: str, since: float) -> deque[float]:
        _, times = self._hits.get(name, (0.0, deque[float]()))
        while times and times[0] <= since:
            times.popleft()
        return times

    def _sweep(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._hits = {name: entry for name, entry in self._hits.items() if entry[0] > now}
            self._until_sweep = max(self.SWEEP_EVERY, len(self._hits))


_local = LocalSlidingWindow()


@cache
def _store(url: str) -> RedisSlidingWindow:
    return RedisSlidingWindow(url)
