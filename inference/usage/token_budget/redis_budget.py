"""A token budget in Redis, shared by all processes."""

import time
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.usage.scopes import LimitScope
from inference.usage.token_budget.budget import (
    LEASE_SECONDS,
    WINDOW_SECONDS,
    BudgetRefusal,
    BudgetReservation,
    BudgetSettlement,
    BudgetState,
)
from inference.usage.token_budget.redis_scripts import RENEW, RESERVE, SETTLE, STATE
from shared.api.limits.rate_limits import STORE_COOLDOWN_SECONDS, STORE_TIMEOUT_SECONDS, report_store_failure

KEY_SUFFIXES = ("running", "window", "weights")


class RedisTokenBudget:
    """A `TokenBudget` whose methods raise redis.RedisError when Redis does not answer."""

    def __init__(
        self, url: str, *, window_seconds: float = WINDOW_SECONDS, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        # Only a lost connection is retried, once and at once: a script that timed out may have run.
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        self._client = redis.Redis.from_url(
            url, socket_timeout=STORE_TIMEOUT_SECONDS, socket_connect_timeout=STORE_TIMEOUT_SECONDS, retry=retry
        )
        self._window_and_lease_us = (round(window_seconds * 1e6), round(lease_seconds * 1e6))
        self._paused_until = 0.0

    def reserve(self, reservation_id: str, scopes: Sequence[LimitScope], tokens: int) -> BudgetRefusal | None:
        limits = [limit for scope in scopes for limit in (scope.tokens_per_minute, scope.max_concurrency)]
        keys = _keys(scope.name for scope in scopes)
        [reply] = self._run([(RESERVE, keys, [reservation_id, tokens, *limits])])
        if not reply:
            return None
        position, is_token_limit, used, wait_us = reply
        return BudgetRefusal(scopes[position - 1], bool(is_token_limit), used, wait_us / 1e6)

    def settle(self, settlements: Sequence[BudgetSettlement]) -> None:
        self._run(
            [(SETTLE, _keys(one.reservation.scope_names), [one.reservation.id, one.tokens]) for one in settlements]
        )

    def renew(self, reservations: Sequence[BudgetReservation]) -> None:
        self._run([(RENEW, _keys(one.scope_names), [one.id]) for one in reservations])

    def state(self, scopes: Sequence[LimitScope]) -> list[BudgetState]:
        [reply] = self._run([(STATE, _keys(scope.name for scope in scopes), [])])
        return [
            BudgetState(tokens, running, reset_us / 1e6)
            for tokens, running, reset_us in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        ]

    def _run(self, calls: Sequence[tuple[str, list[str], list[Any]]]) -> list[Any]:
        """Run several scripts in one round trip. EVAL sends their text, since a restarted server has none cached."""
        if time.monotonic() < self._paused_until:
            raise redis.ConnectionError("the limit store did not answer a moment ago")
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for script, keys, arguments in calls:
                    pipeline.eval(script, len(keys), *keys, *self._window_and_lease_us, *arguments)
                return pipeline.execute()
        except redis.RedisError as error:
            self._paused_until = time.monotonic() + STORE_COOLDOWN_SECONDS
            report_store_failure(error)
            raise


def _keys(scope_names: Iterable[str]) -> list[str]:
    return [f"stoa:budget:{name}:{suffix}" for name in scope_names for suffix in KEY_SUFFIXES]


@cache
def redis_budget(url: str) -> RedisTokenBudget:
    """Return this process's budget on a Redis server."""
    return RedisTokenBudget(url)
