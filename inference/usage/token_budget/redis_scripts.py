"""Lua scripts of `RedisTokenBudget`.

KEYS are three per scope: `running`, a sorted set of reservations by lease end; `window`, a sorted set of reservations
by arrival; `weights`, a hash of each reservation's tokens, and of their sum as `total`. ARGV begins with the window and
the lease in microseconds. All times are the Redis server's, so the clocks of several machines need not agree.

Settling is idempotent: it sets a reservation's weight, so a repeated settlement sets the same value again.
"""

_PRELUDE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window_us, lease_us = tonumber(ARGV[1]), tonumber(ARGV[2])

local function set_weight(weights, id, tokens)
  local before = tonumber(redis.call('HGET', weights, id) or 0)
  if tokens == 0 then redis.call('HDEL', weights, id) else redis.call('HSET', weights, id, tokens) end
  redis.call('HINCRBY', weights, 'total', tokens - before)
end

-- Drop expired leases, and ended reservations from before the window. Return the tokens and the running requests.
local function purge(running, window, weights)
  redis.call('ZREMRANGEBYSCORE', running, '-inf', now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', window, '-inf', now - window_us)) do
    if not redis.call('ZSCORE', running, id) then
      redis.call('ZREM', window, id)
      set_weight(weights, id, 0)
    end
  end
  if redis.call('EXISTS', window) == 0 then redis.call('DEL', weights) end
  return tonumber(redis.call('HGET', weights, 'total') or 0), redis.call('ZCARD', running)
end

local function set_expiry(running, window, weights)
  local ms = math.ceil((window_us + lease_us) / 1000)
  for _, key in ipairs({running, window, weights}) do redis.call('PEXPIRE', key, ms) end
end
"""

# Further ARGV: the reservation, its tokens, then each scope's limits on tokens and on running requests.
# Returns nothing on success. Otherwise: the position of the refusing scope, 1 for its token limit or 0 for its
# concurrency limit, the amount used, and the microseconds to wait.
RESERVE = (
    _PRELUDE
    + """
local id, tokens = ARGV[3], tonumber(ARGV[4])

local function wait(window, weights, surplus)
  local ids = redis.call('ZRANGE', window, 0, 999, 'WITHSCORES')
  for i = 1, #ids, 2 do
    surplus = surplus - tonumber(redis.call('HGET', weights, ids[i]) or 0)
    if surplus <= 0 then return ids[i + 1] + window_us - now end
  end
  return window_us
end

for i = 1, #KEYS / 3 do
  local running, window, weights = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local max_tokens, max_running = tonumber(ARGV[2 * i + 3]), tonumber(ARGV[2 * i + 4])
  local total, runs = purge(running, window, weights)
  if runs >= max_running then return {i, 0, runs, 1000000} end
  local surplus = total + math.min(tokens, max_tokens) - max_tokens
  if surplus > 0 or max_tokens == 0 then return {i, 1, total, wait(window, weights, surplus)} end
end
for i = 1, #KEYS / 3 do
  local running, window, weights = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  redis.call('ZADD', running, now + lease_us, id)
  redis.call('ZADD', window, now, id)
  set_weight(weights, id, math.min(tokens, tonumber(ARGV[2 * i + 3])))
  set_expiry(running, window, weights)
end
return {}
"""
)

# Further ARGV: the reservation, the tokens that its request used.
SETTLE = (
    _PRELUDE
    + """
local id, tokens = ARGV[3], tonumber(ARGV[4])
for i = 1, #KEYS, 3 do
  redis.call('ZREM', KEYS[i], id)
  if redis.call('ZSCORE', KEYS[i + 1], id) then
    if tokens == 0 then redis.call('ZREM', KEYS[i + 1], id) end
    set_weight(KEYS[i + 2], id, tokens)
  end
  set_expiry(KEYS[i], KEYS[i + 1], KEYS[i + 2])
end
"""
)

# Further ARGV: the reservation.
RENEW = (
    _PRELUDE
    + """
for i = 1, #KEYS, 3 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  redis.call('ZADD', KEYS[i], 'XX', now + lease_us, ARGV[3])
  set_expiry(KEYS[i], KEYS[i + 1], KEYS[i + 2])
end
"""
)

# Returns three numbers per scope: tokens, running requests, and microseconds until the oldest tokens expire.
STATE = (
    _PRELUDE
    + """
local reply = {}
for i = 1, #KEYS, 3 do
  local total, runs = purge(KEYS[i], KEYS[i + 1], KEYS[i + 2])
  local oldest = redis.call('ZRANGE', KEYS[i + 1], 0, 0, 'WITHSCORES')[2]
  reply[#reply + 1] = total
  reply[#reply + 1] = runs
  reply[#reply + 1] = oldest and math.max(0, oldest + window_us - now) or 0
end
return reply
"""
)
