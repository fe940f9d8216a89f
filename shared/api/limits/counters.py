"""Counters with limits, kept in Redis for all processes by one script, or in this process where Redis is not available.

An entry adds its weight to a counter until it ends: a request of a rate limit, reserved tokens, a running request. A
change gives an entry another weight or end. Both may be repeated: they set values, and an entry is found by its id and
the weight that it was added with.
"""

import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from functools import cache
from operator import itemgetter
from typing import NamedTuple, Protocol

import redis
import structlog
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.observability import metrics

logger = structlog.get_logger("stoa.limits")

STORE_FAILURES = metrics.Counter("stoa_limit_store_failures_total", "Failures of the Redis server of rate limits.")

STORE_TIMEOUT_SECONDS = 0.5
STORE_COOLDOWN_SECONDS = 1.0  # pause after a failure of Redis
KEY_PREFIX = "stoa:counter:"
PEEK = ""  # the id of entries that are not added

# KEYS: each counter's entries, a sorted set of WEIGHT:ID by end. The sum of their weights has the key with `:sum`.
# ARGV: `add` or `change`, then three for each counter: WEIGHT:ID as it is added or was added, its limit or its new
# weight, and the microseconds from now to its end. The clock is the Redis server's.
# `add` adds all entries or none. It returns 1 or 0 for added, then for each counter the sum and the microseconds until
# enough has ended, or until the oldest entry ends if this one fits. It only looks for an entry without an id.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function weight_of(entry) return string.match(entry, '^%d+') end
local function sum(key) return tonumber(redis.call('GET', key .. ':sum') or 0) end

local function insert(key, entry, us)
  if weight_of(entry) == '0' or redis.call('ZADD', key, now + us, entry) == 0 then return end
  redis.call('INCRBY', key .. ':sum', weight_of(entry))
  local ms = math.ceil(us / 1000)
  if redis.call('PTTL', key) < ms + 60000 then
    redis.call('PEXPIRE', key, ms + 120000)
    redis.call('PEXPIRE', key .. ':sum', ms + 120000)
  end
end

local function remove(key, entry)
  if redis.call('ZREM', key, entry) == 0 then return false end
  redis.call('DECRBY', key .. ':sum', weight_of(entry))
  return true
end

local function remove_ended(key)
  local ended, weights = redis.call('ZRANGEBYSCORE', key, '-inf', now), 0
  if not ended[1] then return end
  for _, entry in ipairs(ended) do weights = weights + weight_of(entry) end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  redis.call('DECRBY', key .. ':sum', weights)
  if redis.call('EXISTS', key) == 0 then redis.call('DEL', key .. ':sum') end
end

local function wait(key, surplus, us)
  for rank = 0, 999 do
    local entry = redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')
    if not entry[1] then break end
    surplus = surplus - weight_of(entry[1])
    if surplus <= 0 then return entry[2] - now end
  end
  return tonumber(us)
end

if ARGV[1] == 'change' then
  for i, key in ipairs(KEYS) do
    local entry, weight, us = unpack(ARGV, 3 * i - 1, 3 * i + 1)
    remove_ended(key)
    if remove(key, entry) and tonumber(us) > 0 then insert(key, weight .. string.match(entry, ':.*'), us) end
  end
  return {}
end

local added, surpluses = 1, {}
for i, key in ipairs(KEYS) do
  local entry, limit = ARGV[3 * i - 1], ARGV[3 * i]
  remove_ended(key)
  surpluses[i] = sum(key) - limit
  if not redis.call('ZSCORE', key, entry) then surpluses[i] = surpluses[i] + weight_of(entry) end
  if surpluses[i] > 0 then added = 0 end
end
local reply = {added}
for i, key in ipairs(KEYS) do
  local entry, _, us = unpack(ARGV, 3 * i - 1, 3 * i + 1)
  if added == 1 and string.sub(entry, -1) ~= ':' then insert(key, entry, us) end
  reply[2 * i] = sum(key)
  reply[2 * i + 1] = wait(key, surpluses[i], us)
end
return reply
"""


class Entry(NamedTuple):
    """An entry of a counter with this limit. It counts with its weight for some seconds, unless it is changed."""

    counter: str
    limit: int
    seconds: float
    weight: int = 1


class Change(NamedTuple):
    """The new weight of an entry, and the seconds until its end from now. Without either the entry ends."""

    entry_id: str
    entry: Entry
    weight: int
    seconds: float


class Count(NamedTuple):
    """The state of a counter after `add`.

    fits: whether the entry is within the counter's limit. used: the weights that count, with the entry's if it was
    added. wait_seconds: until the entry would fit, or else until the oldest entry ends.
    """

    fits: bool
    used: int
    wait_seconds: float


class CounterStore(Protocol):
    """Counters by name."""

    def add(self, entry_id: str, entries: Sequence[Entry]) -> list[Count]:
        """Add an entry to all of these counters, or to none if it does not fit into one of them."""

    def change(self, changes: Sequence[Change]) -> None:
        """Change entries. Ignore those that have ended, or were changed to another weight before."""


class RedisCounters:
    """Counters of all processes. The methods raise redis.RedisError when Redis does not answer."""

    def __init__(self, url: str) -> None:
        # Only a lost connection is retried, once and at once: a script that timed out may have run.
        retry = Retry(NoBackoff(), retries=1, supported_errors=(redis.ConnectionError,))
        client = redis.Redis.from_url(
            url, socket_timeout=STORE_TIMEOUT_SECONDS, socket_connect_timeout=STORE_TIMEOUT_SECONDS, retry=retry
        )
        self._script = client.register_script(_SCRIPT)
        self._paused_until = 0.0

    def add(self, entry_id: str, entries: Sequence[Entry]) -> list[Count]:
        added, *counts = self._run("add", [(one, entry_id, one.limit, one.seconds) for one in entries])
        is_added = bool(added) and entry_id != PEEK
        return [
            Count(is_added or used + one.weight <= one.limit, used, wait_us / 1e6)
            for one, used, wait_us in zip(entries, counts[::2], counts[1::2], strict=True)
        ]

    def change(self, changes: Sequence[Change]) -> None:
        self._run("change", [(one.entry, one.entry_id, one.weight, one.seconds) for one in changes])

    def _run(self, command: str, rows: Sequence[tuple[Entry, str, int, float]]) -> list[int]:
        if time.monotonic() < self._paused_until:
            raise redis.ConnectionError("the limit store did not answer a moment ago")
        arguments: list[str | int] = [command]
        for entry, entry_id, number, seconds in rows:
            arguments += (f"{entry.weight}:{entry_id}", number, round(seconds * 1e6))
        try:
            reply: list[int] = self._script(keys=[f"{KEY_PREFIX}{entry.counter}" for entry, *_ in rows], args=arguments)
        except redis.RedisError as error:
            self._paused_until = time.monotonic() + STORE_COOLDOWN_SECONDS
            STORE_FAILURES.add(1)
            logger.warning("limit_store_unavailable", reason=type(error).__name__)
            raise
        return reply


class _LocalCounter:
    """The entries of a counter in the order of their ends, and the sum of their weights."""

    def __init__(self) -> None:
        self.used = 0
        self._ordered: list[tuple[float, str, int]] = []
        self._ends: dict[tuple[str, int], float] = {}

    def has(self, entry_id: str, weight: int) -> bool:
        return (entry_id, weight) in self._ends

    def insert(self, entry_id: str, weight: int, end: float) -> None:
        if weight:
            self.remove(entry_id, weight)
            insort(self._ordered, (end, entry_id, weight))
            self._ends[entry_id, weight] = end
            self.used += weight

    def remove(self, entry_id: str, weight: int) -> bool:
        end = self._ends.pop((entry_id, weight), None)
        if end is None:
            return False
        del self._ordered[bisect_left(self._ordered, (end, entry_id, weight))]
        self.used -= weight
        return True

    def remove_ended(self, now: float) -> None:
        ended = bisect_right(self._ordered, now, key=itemgetter(0))
        for _, entry_id, weight in self._ordered[:ended]:
            del self._ends[entry_id, weight]
            self.used -= weight
        del self._ordered[:ended]

    def find_end(self, surplus: int) -> float | None:
        """Return when the surplus will have ended, or None if it is larger than all entries together."""
        for end, _, weight in self._ordered:
            surplus -= weight
            if surplus <= 0:
                return end
        return None


class LocalCounters:
    """Counters of this process. Thread-safe. `clock` returns seconds."""

    SWEEP_INTERVAL = 1000  # additions

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counters: dict[str, _LocalCounter] = {}
        self._until_sweep = self.SWEEP_INTERVAL

    def __len__(self) -> int:
        return len(self._counters)

    def add(self, entry_id: str, entries: Sequence[Entry]) -> list[Count]:
        with self._lock:
            now = self._clock()
            self._sweep(now)
            pairs = [(one, self._counters.setdefault(one.counter, _LocalCounter())) for one in entries]
            for _, counter in pairs:
                counter.remove_ended(now)
            surpluses = [
                counter.used - one.limit + (0 if counter.has(entry_id, one.weight) else one.weight)
                for one, counter in pairs
            ]
            if max(surpluses) <= 0 and entry_id != PEEK:
                for one, counter in pairs:
                    counter.insert(entry_id, one.weight, now + one.seconds)
            counts = []
            for (one, counter), surplus in zip(pairs, surpluses, strict=True):
                end = counter.find_end(surplus)
                counts.append(Count(surplus <= 0, counter.used, one.seconds if end is None else end - now))
            return counts

    def change(self, changes: Sequence[Change]) -> None:
        with self._lock:
            now = self._clock()
            for one in changes:
                counter = self._counters.setdefault(one.entry.counter, _LocalCounter())
                counter.remove_ended(now)
                if counter.remove(one.entry_id, one.entry.weight) and one.seconds > 0:
                    counter.insert(one.entry_id, one.weight, now + one.seconds)

    def clear(self) -> None:
        with self._lock:
            self._counters.clear()

    def _sweep(self, now: float) -> None:
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            for counter in self._counters.values():
                counter.remove_ended(now)
            self._counters = {name: counter for name, counter in self._counters.items() if counter.used}
            self._until_sweep = max(self.SWEEP_INTERVAL, len(self._counters))


local_counters = LocalCounters()


@cache
def redis_counters(url: str) -> RedisCounters:
    """Return this process's counters on a Redis server."""
    return RedisCounters(url)


def add(entry_id: str, entries: Sequence[Entry], *, is_strict: bool = False) -> tuple[CounterStore, list[Count]]:
    """Add an entry to counters, and return the store that has it: this process's own while Redis is down.

    Raise redis.RedisError instead if `is_strict`.
    """
    if settings.REDIS_URL:
        try:
            store = redis_counters(settings.REDIS_URL)
            return store, store.add(entry_id, entries)
        except redis.RedisError:
            if is_strict:
                raise
    return local_counters, local_counters.add(entry_id, entries)
