"""Tokens a minute and requests at once, exact: what is reserved is counted until it is settled, and what was used until
a minute after its request came. Over all processes in Redis by scripts, or in this process.

A reservation is held by a lease. Its process renews it while the request runs; of a process that died the leases run
out, and what it had reserved counts for the rest of its minute as if it had been used.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.usage.budget_scripts import RENEW, RESERVE, SETTLE, STATE
from inference.usage.limits import Scope
from shared.api.rate_limits import STORE_PAUSE_S, STORE_TIMEOUT_S, note_store_failure

WINDOW_S = 60
LEASE_S = 30.0
STORE_KEYS = ("running", "window", "weights")


@dataclass(frozen=True)
class State:
    """One scope at one moment: tokens that count, requests that run, and seconds until the oldest tokens do not."""

    tokens: int
    running: int
    reset_s: float


@dataclass(frozen=True)
class Refusal:
    """Why a reservation was refused: the scope, whether it is its tokens or its requests at once, what there is of
    them, and seconds until there is room if nothing else comes."""

    scope: Scope
    is_tokens: bool
    used: int
    wait_s: float


class Budget(Protocol):
    """Counts for scopes. `reservation` is a name that was never used before.

    Redis's raises redis.RedisError when it cannot be asked.
    """

    def reserve(self, reservation: str, scopes: Sequence[Scope], tokens: int) -> Refusal | None:
        """Reserves in all scopes, or in none: then it says why. What is more than a whole limit fits when nothing else
        counts."""

    def settle(self, settled: Sequence["Settlement"]) -> None:
        """The requests have ended. One that was settled before, or whose lease ran out long ago, changes nothing."""

    def renew(self, held: Sequence["Held"]) -> None:
        """The requests still run."""

    def state(self, scopes: Sequence[Scope]) -> list[State]: ...


@dataclass(frozen=True)
class Held:
    """A reservation, and the names of its scopes."""

    reservation: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Settlement:
    """How many tokens a reservation came to."""

    held: Held
    tokens: int


class RedisBudget:
    """Raises redis.RedisError."""

    def __init__(self, url: str, *, window_s: float = WINDOW_S, lease_s: float = LEASE_S) -> None:
        # Tried again once, at once, after a lost connection only: what timed out may have been counted.
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        self._client = redis.Redis.from_url(
            url, socket_timeout=STORE_TIMEOUT_S, socket_connect_timeout=STORE_TIMEOUT_S, retry=retry
        )
        self._times = (round(window_s * 1e6), round(lease_s * 1e6))
        self._paused_until = 0.0

    def reserve(self, reservation: str, scopes: Sequence[Scope], tokens: int) -> Refusal | None:
        limits = [number for scope in scopes for number in (scope.tokens, scope.concurrency)]
        [answer] = self._ask([(RESERVE, _keys(scope.name for scope in scopes), [reservation, tokens, *limits])])
        if not answer:
            return None
        place, is_tokens, used, wait_us = answer
        return Refusal(scopes[place - 1], bool(is_tokens), used, wait_us / 1e6)

    def settle(self, settled: Sequence[Settlement]) -> None:
        self._ask([(SETTLE, _keys(one.held.names), [one.held.reservation, one.tokens]) for one in settled])

    def renew(self, held: Sequence[Held]) -> None:
        self._ask([(RENEW, _keys(one.names), [one.reservation]) for one in held])

    def state(self, scopes: Sequence[Scope]) -> list[State]:
        [numbers] = self._ask([(STATE, _keys(scope.name for scope in scopes), [])])
        return [
            State(tokens, running, reset_us / 1e6)
            for tokens, running, reset_us in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
        ]

    def _ask(self, calls: Sequence[tuple[str, list[str], list[Any]]]) -> list[Any]:
        """Several scripts in one round trip, sent whole: a server that was started again knows none by its hash."""
        if time.monotonic() < self._paused_until:
            raise redis.ConnectionError("the limit store did not answer a moment ago")
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for script, keys, arguments in calls:
                    pipeline.eval(script, len(keys), *keys, *self._times, *arguments)
                return pipeline.execute()
        except redis.RedisError as error:
            self._paused_until = time.monotonic() + STORE_PAUSE_S
            note_store_failure(error)
            raise


def _keys(names: Iterable[str]) -> list[str]:
    return [f"stoa:budget:{name}:{kind}" for name in names for kind in STORE_KEYS]


def retry_after(refusal: Refusal) -> int:
    """Whole seconds, 1 or more."""
    return max(1, math.ceil(refusal.wait_s))


@cache
def redis_budget(url: str) -> RedisBudget:
    """One a process and server."""
    return RedisBudget(url)
