"""Exact rate limits over a sliding window, on the counters of `counters`.

IP addresses and e-mail addresses are hashed before they are stored.
"""

import asyncio
import hashlib
import ipaddress
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis
from django.conf import settings

from shared.api.errors import ApiError
from shared.api.limits import counters
from shared.observability import metrics

REFUSAL_SECONDS = 1.0  # in which a refusal is repeated without asking Redis
MAX_REFUSALS = 10_000
REFUSALS = metrics.Counter("stoa_limit_refusals_total", "Requests that a rate limit refused, by limit.", "limit")


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


_refusals: dict[tuple[str, tuple[RateLimitCounter, ...], int], tuple[RateLimitDecision, float]] = {}


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


async def ahit(bucket: str, *hits: RateLimitCounter, window_s: int = 60) -> RateLimitDecision:
    """Count a hit from the event loop, in a thread. Several counters count it all or none.

    Return the decision of the counter that has the least left.
    """
    if not settings.REDIS_URL:
        return strictest(_count_hits(bucket, hits, window_s=window_s, counts=True))
    limit = bucket, hits, window_s
    if limit in _refusals:
        decision, until = _refusals[limit]
        if time.monotonic() < until:
            REFUSALS.add(1, bucket)
            return decision
        del _refusals[limit]
    asked_at = time.monotonic()
    decision = strictest(await asyncio.to_thread(_count_hits, bucket, hits, window_s=window_s, counts=True))
    if not decision.allowed and decision.reset_after > 1:
        if len(_refusals) >= MAX_REFUSALS:
            _refusals.clear()
        _refusals[limit] = decision, asked_at + REFUSAL_SECONDS
    return decision


async def apeek(bucket: str, *hits: RateLimitCounter, window_s: int = 60) -> list[RateLimitDecision]:
    """Return the decision that each counter would make, without counting a hit."""
    return await asyncio.to_thread(_count_hits, bucket, hits, window_s=window_s, counts=False)


def strictest(decisions: Sequence[RateLimitDecision]) -> RateLimitDecision:
    """Return the decision to report: the refusal that lasts longest, or else the one with the least left."""
    return max(decisions, key=lambda one: (not one.allowed, -one.remaining, one.reset_after))


def _count_hits(
    bucket: str, hits: Sequence[RateLimitCounter], *, window_s: int, counts: bool, strict: bool = False
) -> list[RateLimitDecision]:
    """Return the decisions of the counters. Raise redis.RedisError if `strict` and Redis is down."""
    entries = [counters.Entry(f"hits:{bucket}:{_digest(one.key)}", one.limit, window_s) for one in hits]
    entry_id = secrets.token_hex(8) if counts else counters.PEEK
    _, states = counters.add(entry_id, entries, is_strict=strict)
    if counts and not all(state.fits for state in states):
        REFUSALS.add(1, bucket)
    return [_decision(one.limit, state) for one, state in zip(hits, states, strict=True)]


def _decision(limit: int, state: counters.Count) -> RateLimitDecision:
    reset_after = max(1, math.ceil(state.wait_seconds))
    return RateLimitDecision(
        allowed=state.fits,
        limit=limit,
        remaining=max(0, limit - state.used),
        reset_at=math.ceil(time.time()) + reset_after,
        reset_after=reset_after,
    )


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


def address_key(address: str) -> str:
    """Return the rate-limit key of an address: an IPv4 address itself, or the /64 network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
