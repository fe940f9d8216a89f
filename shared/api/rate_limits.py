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
from dataclasses import dataclass
from functools import cache

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.api.errors import ApiError

logger = structlog.get_logger("stoa.limits")

STORE_TIMEOUT_S = 0.5
STORE_PAUSE_S = 1.0  # after a failure the store is left alone for so long

# KEYS[1] the counter; ARGV limit, window in microseconds, a name for this hit.
# Answers: allowed (0 or 1), hits in the window, microseconds until the oldest of them leaves it.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local count = redis.call('ZCARD', KEYS[1])
local allowed = 0
if count < limit then
  redis.call('ZADD', KEYS[1], now, ARGV[3])
  redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
  allowed, count = 1, count + 1
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return {allowed, count, oldest and oldest + window - now or window}
"""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether this hit was let through. `reset_after`: seconds until the window has room again; `reset_at`: the Unix
    time of that."""

    allowed: bool
    limit: int
    remaining: int
    reset_at: int
    reset_after: int


def hit(bucket: str, key: str, *, limit: int, window_s: int = 60, strict: bool = False) -> Decision:
    """Counts one hit of `key` in `bucket`; at most `limit` are let through in any `window_s` seconds.

    When the store is down, counts in this process; or, where `strict`, raises ApiError 503.
    """
    digest = hashlib.sha256(key.encode(errors="replace")).hexdigest()[:32]
    name = f"stoa:limit:{bucket}:{digest}"
    if not settings.REDIS_URL:
        return _local.hit(name, limit=limit, window_s=window_s)
    try:
        return _store(settings.REDIS_URL).hit(name, limit=limit, window_s=window_s)
    except redis.RedisError as error:
        if strict:
            raise ApiError(
                503, "Sign-ins are paused for a moment. Try again shortly.", headers={"Retry-After": "5"}
            ) from error
        return _local.hit(name, limit=limit, window_s=window_s)


async def ahit(bucket: str, key: str, *, limit: int, window_s: int = 60) -> Decision:
    """`hit` for the event loop: the store is asked in a thread."""
    if not settings.REDIS_URL:
        return hit(bucket, key, limit=limit, window_s=window_s)
    return await asyncio.to_thread(hit, bucket, key, limit=limit, window_s=window_s)


def require(decision: Decision) -> None:
    """Raises ApiError 429, with what the client needs to come back in time, unless the hit was let through."""
    if not decision.allowed:
        raise ApiError(
            429,
            f"Too many requests: at most {decision.limit} are allowed. Try again in {decision.reset_after} seconds.",
            details={"retry_after": decision.reset_after},
            headers=rate_limit_headers(decision),
        )


def rate_limit_headers(decision: Decision) -> dict[str, str]:
    """The headers of a limited answer, with `Retry-After` when it was refused."""
    headers = {
        "X-RateLimit-Limit": str(decision.limit),
        "X-RateLimit-Remaining": str(decision.remaining),
        "X-RateLimit-Reset": str(decision.reset_at),
        "X-RateLimit-Reset-After": str(decision.reset_after),
    }
    return headers if decision.allowed else headers | {"Retry-After": str(decision.reset_after)}


def address_key(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that one IPv6 customer has whole."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _decision(*, allowed: bool, limit: int, count: int, reset_s: float) -> Decision:
    reset_after = max(1, math.ceil(reset_s))
    return Decision(
        allowed=allowed,
        limit=limit,
        remaining=max(0, limit - count),
        reset_at=math.ceil(time.time()) + reset_after,
        reset_after=reset_after,
    )


class RedisWindow:
    """The counter over all processes. Raises redis.RedisError when the store cannot be asked."""

    def __init__(self, url: str) -> None:
        # Tried again once, at once, after a lost connection only: a hit that timed out may have been counted.
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        client = redis.Redis.from_url(
            url, socket_timeout=STORE_TIMEOUT_S, socket_connect_timeout=STORE_TIMEOUT_S, retry=retry
        )
        self._script = client.register_script(_SCRIPT)
        self._paused_until = 0.0

    def hit(self, name: str, *, limit: int, window_s: int) -> Decision:
        if time.monotonic() < self._paused_until:
            raise redis.ConnectionError("the limit store did not answer a moment ago")
        try:
            answer = self._script(keys=[name], args=[limit, window_s * 1_000_000, secrets.token_hex(8)])
        except redis.RedisError as error:
            self._paused_until = time.monotonic() + STORE_PAUSE_S
            logger.warning("limit_store_unavailable", reason=type(error).__name__)
            raise
        allowed, count, reset_us = answer
        return _decision(allowed=bool(allowed), limit=limit, count=count, reset_s=reset_us / 1e6)


class LocalWindow:
    """The same counter in one process."""

    SWEEP_EVERY = 1000  # hits

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits: dict[str, tuple[float, deque[float]]] = {}
        self._until_sweep = self.SWEEP_EVERY

    def hit(self, name: str, *, limit: int, window_s: int) -> Decision:
        now = time.monotonic()
        with self._lock:
            self._sweep(now)
            _, times = self._hits.get(name, (0.0, deque[float]()))
            while times and times[0] <= now - window_s:
                times.popleft()
            if allowed := len(times) < limit:
                times.append(now)
                self._hits[name] = (now + window_s, times)
            reset_s = times[0] + window_s - now if times else window_s
            return _decision(allowed=allowed, limit=limit, count=len(times), reset_s=reset_s)

    def clear(self) -> None:
        with self._lock:
            self._hits.clear()

    def _sweep(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._hits = {name: entry for name, entry in self._hits.items() if entry[0] > now}
            self._until_sweep = max(self.SWEEP_EVERY, len(self._hits))


_local = LocalWindow()


@cache
def _store(url: str) -> RedisWindow:
    return RedisWindow(url)
