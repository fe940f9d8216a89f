"""Exact rate limits over a sliding window: counted over all processes in Redis by one script, or in this process.

Addresses and e-mails are hashed before they leave for the store.
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

REFUSALS = metrics.Counter("stoa_limit_refusals_total", "Requests that a limit turned away, by which limit.", "limit")
STORE_FAILURES = metrics.Counter("stoa_limit_store_failures_total", "How often the limits' store could not be asked.")

STORE_TIMEOUT_SECONDS = 0.5
STORE_COOLDOWN_SECONDS = 1.0  # after a failure the store is left alone for so long

# KEYS the counters; ARGV window in microseconds, a name for this hit ("" to look only), then a limit for each counter.
# Answers: allowed (0 or 1), then for each counter its hits in the window and the microseconds until the oldest of them
# leaves it. A hit is counted in all of them or in none.
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
    """Whether this hit was let through. `reset_after`: seconds until the window has room again; `reset_at`: the Unix
    time of that."""

    allowed: bool
    limit: int
    remaining: int
    reset_at: int
    reset_after: int


@dataclass(frozen=True)
class RateLimitCounter:
    """What counts hits: whose they are, and how many of them are let through in a window."""

    key: str
    limit: int


def hit(bucket: str, key: str, *, limit: int, window_s: int = 60, strict: bool = False) -> RateLimitDecision:
    """Counts one hit of `key` in `bucket`; at most `limit` are let through in any `window_s` seconds.

    When the store is down, counts in this process; or, where `strict`, raises ApiError 503.
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
    """`hit` for the event loop: the store is asked in a thread. Several counters count the hit all or none; the answer
    is of the one that has least left."""
    if not settings.REDIS_URL:
        return strictest(_count_hits(bucket, counters, window_s=window_s, counts=True))
    return strictest(await asyncio.to_thread(_count_hits, bucket, counters, window_s=window_s, counts=True))


async def apeek(bucket: str, *counters: RateLimitCounter, window_s: int = 60) -> list[RateLimitDecision]:
    """What each counter would say to a hit, which is not counted."""
    return await asyncio.to_thread(_count_hits, bucket, counters, window_s=window_s, counts=False)


def strictest(decisions: Sequence[RateLimitDecision]) -> RateLimitDecision:
    """The one that a client has to know of: of those that refused, who has room last, else who has least left."""
    return max(decisions, key=lambda one: (not one.allowed, -one.remaining, one.reset_after))


def _count_hits(
    bucket: str, counters: Sequence[RateLimitCounter], *, window_s: int, counts: bool, strict: bool = False
) -> list[RateLimitDecision]:
    """Raises redis.RedisError where `strict` and the store is down."""
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
    """Raises ApiError 429, with what the client needs to come back in time, unless the hit was let through."""
    if not decision.allowed:
        raise ApiError(
            429,
            f"Too many requests: at most {decision.limit} are allowed. Try again in {decision.reset_after} seconds.",
            details={"retry_after": decision.reset_after},
            headers=rate_limit_headers(decision),
        )


def rate_limit_headers(decision: RateLimitDecision) -> dict[str, str]:
    """The headers of a limited answer, with `Retry-After` when it was refused."""
    headers = {
        "X-RateLimit-Limit": str(decision.limit),
        "X-RateLimit-Remaining": str(decision.remaining),
        "X-RateLimit-Reset": str(decision.reset_at),
        "X-RateLimit-Reset-After": str(decision.reset_after),
    }
    return headers if decision.allowed else headers | {"Retry-After": str(decision.reset_after)}


def report_store_failure(error: redis.RedisError) -> None:
    """For the operator: limits are counted in each process for a while."""
    STORE_FAILURES.add(1)
    logger.warning("limit_store_unavailable", reason=type(error).__name__)


def address_key(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that one IPv6 customer has whole."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _decision(*, limit: int, count: int, reset_s: float, was_counted: bool) -> RateLimitDecision:
    """`count` has this hit in it if it was counted."""
    reset_after = max(1, math.ceil(reset_s))
    return RateLimitDecision(
        allowed=was_counted or count < limit,
        limit=limit,
        remaining=max(0, limit - count),
        reset_at=math.ceil(time.time()) + reset_after,
        reset_after=reset_after,
    )


class RedisSlidingWindow:
    """The counter over all processes. Raises redis.RedisError when the store cannot be asked."""

    def __init__(self, url: str) -> None:
        # Tried again once, at once, after a lost connection only: a hit that timed out may have been counted.
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
    """The same counter in one process."""

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
