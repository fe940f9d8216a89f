"""The scripts of `budgets.RedisBudget`.

KEYS are three a scope: `running`, a sorted set of reservations by the end of their lease; `window`, one of reservations
by when they came; `weights`, a hash of their tokens, and `total` of them all. ARGV begin with the window and the lease
in microseconds. Times are the server's own, so that the clocks of several machines need not agree.

Settling twice changes nothing the second time: the first has set the weight, and the second sets the same.
"""

_BEGIN = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window_us, lease_us = tonumber(ARGV[1]), tonumber(ARGV[2])

local function weigh(weights, id, tokens)
  local before = tonumber(redis.call('HGET', weights, id) or 0)
  if tokens == 0 then redis.call('HDEL', weights, id) else redis.call('HSET', weights, id, tokens) end
  redis.call('HINCRBY', weights, 'total', tokens - before)
end

-- Drops leases that ran out, and what came before the window and runs no more. Answers tokens and requests that run.
local function purge(running, window, weights)
  redis.call('ZREMRANGEBYSCORE', running, '-inf', now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', window, '-inf', now - window_us)) do
    if not redis.call('ZSCORE', running, id) then
      redis.call('ZREM', window, id)
      weigh(weights, id, 0)
    end
  end
  if redis.call('EXISTS', window) == 0 then redis.call('DEL', weights) end
  return tonumber(redis.call('HGET', weights, 'total') or 0), redis.call('ZCARD', running)
end

local function keep(running, window, weights)
  local ms = math.ceil((window_us + lease_us) / 1000)
  for _, key in ipairs({running, window, weights}) do redis.call('PEXPIRE', key, ms) end
end
"""

# ARGV further: the reservation, its tokens, then tokens and requests at once that each scope may have.
# Answers nothing, or place of the scope that refuses, 1 for its tokens, what it has of them, microseconds to wait.
RESERVE = (
    _BEGIN
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
  local most, most_running = tonumber(ARGV[2 * i + 3]), tonumber(ARGV[2 * i + 4])
  local total, runs = purge(running, window, weights)
  if runs >= most_running then return {i, 0, runs, 1000000} end
  local surplus = total + math.min(tokens, most) - most
  if surplus > 0 or most == 0 then return {i, 1, total, wait(window, weights, surplus)} end
end
for i = 1, #KEYS / 3 do
  local running, window, weights = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  redis.call('ZADD', running, now + lease_us, id)
  redis.call('ZADD', window, now, id)
  weigh(weights, id, math.min(tokens, tonumber(ARGV[2 * i + 3])))
  keep(running, window, weights)
end
return {}
"""
)

# ARGV further: the reservation, the tokens that it came to.
SETTLE = (
    _BEGIN
    + """
local id, tokens = ARGV[3], tonumber(ARGV[4])
for i = 1, #KEYS, 3 do
  redis.call('ZREM', KEYS[i], id)
  if redis.call('ZSCORE', KEYS[i + 1], id) then
    if tokens == 0 then redis.call('ZREM', KEYS[i + 1], id) end
    weigh(KEYS[i + 2], id, tokens)
  end
  keep(KEYS[i], KEYS[i + 1], KEYS[i + 2])
end
"""
)

# ARGV further: the reservation.
RENEW = (
    _BEGIN
    + """
for i = 1, #KEYS, 3 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  redis.call('ZADD', KEYS[i], 'XX', now + lease_us, ARGV[3])
  keep(KEYS[i], KEYS[i + 1], KEYS[i + 2])
end
"""
)

# Answers for each scope its tokens, what runs, and microseconds until the oldest tokens count no more.
STATE = (
    _BEGIN
    + """
local answer = {}
for i = 1, #KEYS, 3 do
  local total, runs = purge(KEYS[i], KEYS[i + 1], KEYS[i + 2])
  local oldest = redis.call('ZRANGE', KEYS[i + 1], 0, 0, 'WITHSCORES')[2]
  answer[#answer + 1] = total
  answer[#answer + 1] = runs
  answer[#answer + 1] = oldest and math.max(0, oldest + window_us - now) or 0
end
return answer
"""
)
