"""What is let in and is not in the ledger yet, held against the quotas of a month: in Redis for all processes, or here.

A request is let in when what the ledger has, what is held, and what it may take are together no more than the quota.
What the ledger has is read before, and something may go from here into the ledger meanwhile: so each such step gives
the holds of a quota another `epoch`, and what was read counts only in the epoch in which it was read.

A hold has a lease. That of a process that died runs out, and what it had not written is not in the ledger either.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.usage.budgets import LEASE_S
from inference.usage.quotas import Quota
from shared.api.rate_limits import STORE_TIMEOUT_S

MOST_QUOTAS = 10_000  # remembered with nothing held
UNKNOWN = ""  # an epoch that never is


@dataclass(frozen=True)
class Known:
    """What the ledger had of a quota, and in which epoch."""

    epoch: str
    used: int


@dataclass(frozen=True)
class Stale:
    """Nothing was held: the epochs are these."""

    epochs: list[str]


@dataclass(frozen=True)
class Full:
    """Nothing was held: this quota has not enough left beside so many tokens."""

    quota: Quota
    taken: int


class Holds(Protocol):
    def hold(self, name: str, quotas: Sequence[Quota], known: Sequence[Known], tokens: int) -> Stale | Full | None:
        """Holds tokens under this name for all of the quotas, or for none and says why."""

    def renew(self, name: str, quotas: Sequence[Quota]) -> None: ...

    def release(self, name: str, quotas: Sequence[Quota]) -> None:
        """It is in the ledger, or came to nothing."""


_BEGIN = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease_us, id = tonumber(ARGV[1]), ARGV[2]

local function drop(leases, state, id)
  redis.call('ZREM', leases, id)
  local tokens = tonumber(redis.call('HGET', state, 'of:' .. id) or 0)
  if redis.call('HDEL', state, 'of:' .. id) == 1 then
    redis.call('HINCRBY', state, 'held', -tokens)
    redis.call('HINCRBY', state, 'epoch', 1)
  end
end

local function keep(leases, state)
  for _, key in ipairs({leases, state}) do redis.call('PEXPIRE', key, math.ceil(lease_us / 1000) * 2) end
end
"""

# KEYS are two a quota. ARGV further: the tokens, then of each quota its limit, what the ledger has of it and the epoch.
# Answers nothing; or 0 and the epochs; or the place of the quota that is full, and what is taken of it.
_HOLD = (
    _BEGIN
    + """
local tokens, epochs, stale = tonumber(ARGV[3]), {0}, false
for i = 1, #KEYS, 2 do
  local leases, state, at = KEYS[i], KEYS[i + 1], 3 + (i - 1) / 2 * 3
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do drop(leases, state, dead) end
  redis.call('HSETNX', state, 'epoch', string.format('%.0f', now))
  keep(leases, state)
  epochs[#epochs + 1] = redis.call('HGET', state, 'epoch')
  if epochs[#epochs] ~= ARGV[at + 3] then stale = true end
end
if stale then return epochs end
for i = 1, #KEYS, 2 do
  local at = 3 + (i - 1) / 2 * 3
  local taken = tonumber(redis.call('HGET', KEYS[i + 1], 'held') or 0) + tonumber(ARGV[at + 2])
  if taken + tokens > tonumber(ARGV[at + 1]) then return {(i + 1) / 2, string.format('%.0f', taken)} end
end
for i = 1, #KEYS, 2 do
  redis.call('ZADD', KEYS[i], now + lease_us, id)
  redis.call('HSET', KEYS[i + 1], 'of:' .. id, tokens)
  redis.call('HINCRBY', KEYS[i + 1], 'held', tokens)
  keep(KEYS[i], KEYS[i + 1])
end
return {}
"""
)

_RENEW = (
    _BEGIN
    + """
for i = 1, #KEYS, 2 do
  redis.call('ZADD', KEYS[i], 'XX', now + lease_us, id)
  keep(KEYS[i], KEYS[i + 1])
end
"""
)

_RELEASE = (
    _BEGIN
    + """
for i = 1, #KEYS, 2 do drop(KEYS[i], KEYS[i + 1], id) end
"""
)


class RedisHolds:
    """Raises redis.RedisError."""

    def __init__(self, url: str, *, lease_s: float = LEASE_S) -> None:
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=STORE_TIMEOUT_S,
            socket_connect_timeout=STORE_TIMEOUT_S,
            retry=retry,
            decode_responses=True,
        )
        self._lease_us = round(lease_s * 1e6)

    def hold(self, name: str, quotas: Sequence[Quota], known: Sequence[Known], tokens: int) -> Stale | Full | None:
        told = [
            value for quota, one in zip(quotas, known, strict=True) for value in (quota.tokens, one.used, one.epoch)
        ]
        answer = self._ask(_HOLD, name, quotas, tokens, *told)
        if not answer:
            return None
        place, *rest = answer
        return Full(quotas[place - 1], int(rest[0])) if place else Stale(rest)

    def renew(self, name: str, quotas: Sequence[Quota]) -> None:
        self._ask(_RENEW, name, quotas)

    def release(self, name: str, quotas: Sequence[Quota]) -> None:
        self._ask(_RELEASE, name, quotas)

    def _ask(self, script: str, name: str, quotas: Sequence[Quota], *arguments: Any) -> Any:
        keys = [f"stoa:month:{quota.name}:{kind}" for quota in quotas for kind in ("leases", "state")]
        return self._client.eval(script, len(keys), *keys, self._lease_us, name, *arguments)


@dataclass
class _Held:
    epoch: int
    tokens: dict[str, int] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)


class LocalHolds:
    """The same in one process: where there is no Redis, and while it is away. Safe to use from many threads."""

    def __init__(self, *, lease_s: float = LEASE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._lock = threading.Lock()
        self._epochs = count(1)
        self._quotas: dict[str, _Held] = {}

    def hold(self, name: str, quotas: Sequence[Quota], known: Sequence[Known], tokens: int) -> Stale | Full | None:
        with self._lock:
            now = self._clock()
            held = [self._of(quota, now) for quota in quotas]
            epochs = [str(one.epoch) for one in held]
            if epochs != [one.epoch for one in known]:
                return Stale(epochs)
            for quota, one, in_ledger in zip(quotas, held, known, strict=True):
                taken = sum(one.tokens.values()) + in_ledger.used
                if taken + tokens > quota.tokens:
                    return Full(quota, taken)
            for one in held:
                one.tokens[name], one.until[name] = tokens, now + self._lease_s
            return None

    def renew(self, name: str, quotas: Sequence[Quota]) -> None:
        with self._lock:
            for quota in quotas:
                one = self._quotas.get(quota.name)
                if one and name in one.until:
                    one.until[name] = self._clock() + self._lease_s

    def release(self, name: str, quotas: Sequence[Quota]) -> None:
        with self._lock:
            for quota in quotas:
                if one := self._quotas.get(quota.name):
                    self._drop(one, name)

    def _of(self, quota: Quota, now: float) -> _Held:
        if len(self._quotas) > MOST_QUOTAS:
            self._quotas = {name: one for name, one in self._quotas.items() if one.tokens}
        one = self._quotas.setdefault(quota.name, _Held(next(self._epochs)))
        for name in [name for name, until in one.until.items() if until <= now]:
            self._drop(one, name)
        return one

    def _drop(self, one: _Held, name: str) -> None:
        if one.tokens.pop(name, None) is not None:
            del one.until[name]
            one.epoch = next(self._epochs)


@cache
def redis_holds(url: str) -> RedisHolds:
    """One a process and server."""
    return RedisHolds(url)


local_holds = LocalHolds()
