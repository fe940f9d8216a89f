"""Quota reservations in Redis, shared by all processes.

KEYS are two per quota: `leases`, a sorted set of reservations by lease end; `state`, a hash of the epoch, of each
reservation's tokens as `of:ID`, and of their sum as `held`. ARGV begins with the lease in microseconds and the
reservation's id. All times are the Redis server's.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.usage.monthly_quotas.quotas import MonthlyQuota
from inference.usage.monthly_quotas.reservations import LedgerReading, QuotaRefusal, StaleReadings
from inference.usage.token_budget import LEASE_SECONDS
from shared.api.limits.rate_limits import STORE_TIMEOUT_SECONDS

_PRELUDE = """
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

local function set_expiry(leases, state)
  for _, key in ipairs({leases, state}) do redis.call('PEXPIRE', key, math.ceil(lease_us / 1000) * 2) end
end
"""

# Further ARGV: the tokens, then each quota's limit, ledger tokens and epoch.
# Returns nothing on success. Otherwise: 0 and the current epochs; or the position of the quota that would be exceeded,
# and its used tokens.
_RESERVE = (
    _PRELUDE
    + """
local tokens, epochs, stale = tonumber(ARGV[3]), {0}, false
for i = 1, #KEYS, 2 do
  local leases, state, at = KEYS[i], KEYS[i + 1], 3 + (i - 1) / 2 * 3
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do drop(leases, state, dead) end
  redis.call('HSETNX', state, 'epoch', string.format('%.0f', now))
  set_expiry(leases, state)
  epochs[#epochs + 1] = redis.call('HGET', state, 'epoch')
  if epochs[#epochs] ~= ARGV[at + 3] then stale = true end
end
if stale then return epochs end
for i = 1, #KEYS, 2 do
  local at = 3 + (i - 1) / 2 * 3
  local used = tonumber(redis.call('HGET', KEYS[i + 1], 'held') or 0) + tonumber(ARGV[at + 2])
  if used + tokens > tonumber(ARGV[at + 1]) then return {(i + 1) / 2, string.format('%.0f', used)} end
end
for i = 1, #KEYS, 2 do
  redis.call('ZADD', KEYS[i], now + lease_us, id)
  redis.call('HSET', KEYS[i + 1], 'of:' .. id, tokens)
  redis.call('HINCRBY', KEYS[i + 1], 'held', tokens)
  set_expiry(KEYS[i], KEYS[i + 1])
end
return {}
"""
)

_RENEW = (
    _PRELUDE
    + """
for i = 1, #KEYS, 2 do
  redis.call('ZADD', KEYS[i], 'XX', now + lease_us, id)
  set_expiry(KEYS[i], KEYS[i + 1])
end
"""
)

_RELEASE = (
    _PRELUDE
    + """
for i = 1, #KEYS, 2 do drop(KEYS[i], KEYS[i + 1], id) end
"""
)


class RedisReservationStore:
    """A `QuotaReservationStore` whose methods raise redis.RedisError when Redis does not answer."""

    def __init__(self, url: str, *, lease_seconds: float = LEASE_SECONDS) -> None:
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=STORE_TIMEOUT_SECONDS,
            socket_connect_timeout=STORE_TIMEOUT_SECONDS,
            retry=retry,
            decode_responses=True,
        )
        self._lease_us = round(lease_seconds * 1e6)

    def reserve(
        self, reservation_id: str, quotas: Sequence[MonthlyQuota], readings: Sequence[LedgerReading], tokens: int
    ) -> StaleReadings | QuotaRefusal | None:
        quota_arguments = [
            value
            for quota, reading in zip(quotas, readings, strict=True)
            for value in (quota.max_tokens, reading.tokens, reading.epoch)
        ]
        reply = self._run(_RESERVE, reservation_id, quotas, tokens, *quota_arguments)
        if not reply:
            return None
        position, *rest = reply
        return QuotaRefusal(quotas[position - 1], int(rest[0])) if position else StaleReadings(rest)

    def renew(self, reservation_id: str, quotas: Sequence[MonthlyQuota]) -> None:
        self._run(_RENEW, reservation_id, quotas)

    def release(self, reservation_id: str, quotas: Sequence[MonthlyQuota]) -> None:
        self._run(_RELEASE, reservation_id, quotas)

    def _run(self, script: str, reservation_id: str, quotas: Sequence[MonthlyQuota], *arguments: Any) -> Any:
        keys = [f"stoa:month:{quota.name}:{suffix}" for quota in quotas for suffix in ("leases", "state")]
        return self._client.eval(script, len(keys), *keys, self._lease_us, reservation_id, *arguments)


@cache
def redis_reservations(url: str) -> RedisReservationStore:
    """Return this process's store on a Redis server."""
    return RedisReservationStore(url)
