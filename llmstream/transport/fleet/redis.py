"""A shared limiter in Redis, for any number of machines (extra `redis`; Redis 5 or newer, or Valkey).

One script applies a batch on the server, by the server's clock. It implements the rules of `rules.py`, in the
same order and with the same names. The queue is a sorted set, so that the cost of a change hardly depends on
the number of waiters. All keys of a name have one hash tag and a time to live.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from hashlib import sha1
from typing import Any, Final

import msgspec

from llmstream.addresses import redis_server
from llmstream.errors import LimitsUnavailable, Unsupported
from llmstream.transport.fleet import rules
from llmstream.transport.fleet.rules import Answer, Batch

__all__ = ["RedisLimits", "check_installed"]

# Timeout of one reply of the server: requests wait meanwhile.
_TIMEOUT_S: Final = 5.0

# An unused state expires this long after its buckets are full and its pause is over.
_EXPIRY_S: Final = 3600

# Two connections: one for commands, one for the subscription.
_CONNECTIONS: Final = 2

# 2**40 numbers for each of the priorities, which a double holds exactly.
_SCRIPT: Final = (
    f"""
local NEAR, WOKEN, EXPECTED, SLACK = {rules.NEAR}, {rules.WOKEN}, {rules.EXPECTED_S}, {rules.SLACK_S}
local SILENT_PART, MEMBER_S, LONGEST_PAUSE = {rules.SILENT_PART}, {rules.MEMBER_S}, {rules.LONGEST_PAUSE_S}
local CUT, GROWTH, LOWEST = {rules.CUT}, {rules.GROWTH_PER_S!r}, {rules.LOWEST_FACTOR}
local USED_UP = {rules.USED_UP}
local NEVER, RANKS, KEPT, MISSED = 1e18, 2 ^ 40, {_EXPIRY_S}, {rules.MISSED_S}
"""
    + """
local STATE, LINE, WAITERS, PLACES, WAITING, MEMBERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local batch = cmsgpack.unpack(ARGV[1])
local member, waits, given, most, lease, ops = unpack(batch)
local now = tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) + tonumber(t[2]) / 1000000
end
local raw, s = redis.call('GET', STATE), nil
if raw then
  s = cmsgpack.unpack(raw)
  now = math.max(now, s.at)
else
  s = {created = now, at = now, given = {0, 0, 0, 0}, limits = {0, 0, 0, 0}, levels = {0, 0, 0, 0},
       spent = {0, 0, 0, 0}, queued = {0, 0, 0, 0}, number = 0, pause_until = 0, factor = 1, cut_at = 0}
end
local sizes, factor, free = {0, 0, 0, 0}, 1, NEVER

local function exact(n) return string.format('%.17g', n) end
local function add(sums, costs) for k = 1, 4 do sums[k] = sums[k] + costs[k] end end
local function starts(id, name) return string.sub(id, 1, #name + 1) == name .. '.' end

local function resize()
  factor = math.min(1, s.factor + math.max(0, now - s.cut_at) * GROWTH)
  for k = 1, 4 do
    sizes[k] = s.given[k] * factor
    if s.limits[k] > 0 then sizes[k] = math.min(s.given[k], s.limits[k]) * factor end
  end
end

local function count_places()
  if most > 0 then free = most - redis.call('ZCARD', PLACES) end
end

local function leave(id)
  local found = redis.call('HGET', WAITERS, id)
  if found then
    redis.call('HDEL', WAITERS, id)
    redis.call('ZREM', LINE, id)
    local cost = cmsgpack.unpack(found)[1]
    for k = 1, 4 do s.queued[k] = s.queued[k] - cost[k] end
  end
  if redis.call('ZCARD', LINE) == 0 then s.queued = {0, 0, 0, 0} end
end

local function drop(name)
  for _, id in ipairs(redis.call('HKEYS', WAITERS)) do
    if starts(id, name) then leave(id) end
  end
end

local function costs_of(first, last)
  local ids = redis.call('ZRANGE', LINE, first, last)
  if #ids == 0 then return ids, {} end
  local found = redis.call('HMGET', WAITERS, unpack(ids))
  for n = 1, #ids do found[n] = found[n] and cmsgpack.unpack(found[n]) or {{0, 0, 0, 0}, 0} end
  return ids, found
end

local function ahead_of(place)
  local sums = {0, 0, 0, 0}
  if place == 0 then return sums end
  local _, found = costs_of(0, math.min(place, NEAR) - 1)
  for _, waiting in ipairs(found) do add(sums, waiting[1]) end
  if place > NEAR then
    local near = {sums[1], sums[2], sums[3], sums[4]}
    local _, own = costs_of(place, place)
    add(near, own[1][1])
    local others = redis.call('ZCARD', LINE) - NEAR - 1
    for k = 1, 4 do
      local each = math.max(0, s.queued[k] - near[k]) / math.max(1, others)
      sums[k] = sums[k] + each * (place - NEAR)
    end
  end
  return sums
end

local function wait_s(cost, place, ahead, slack)
  if place >= free then return NEVER end
  local wait = math.max(0, s.pause_until - now)
  for k = 1, 4 do
    local size = sizes[k]
    if size > 0 then
      local own = math.min(cost[k], size)
      local need, level = ahead[k] + own, s.levels[k]
      if math.max(own, need - slack * size / 60) - level > 1e-9 * size then
        wait = math.max(wait, (need - level) * 60 / size)
      end
    end
  end
  return wait
end

local function ask(id, cost, priority, again)
  local place = redis.call('ZRANK', LINE, id)
  if not place then
    again = false
    s.number = s.number + 1
    redis.call('ZADD', LINE, exact(s.number - priority * RANKS), id)
    add(s.queued, cost)
    place = redis.call('ZRANK', LINE, id)
  end
  redis.call('HSET', WAITERS, id, cmsgpack.pack({cost, 0}))
  local wait = wait_s(cost, place, ahead_of(place), again and SLACK or 0)
  if wait > 0 then
    redis.call('HSET', WAITERS, id, cmsgpack.pack({cost, math.min(NEVER, now + wait)}))
    return wait
  end
  leave(id)
  for k = 1, 4 do s.levels[k] = s.levels[k] - cost[k] end
  add(s.spent, cost)
  if most > 0 then
    redis.call('ZADD', PLACES, exact(now + lease), id)
    count_places()
  end
  return -1
end

local function correct(extra)
  add(s.spent, extra)
  for k = 1, 4 do
    if sizes[k] > 0 then
      local before = s.levels[k]
      s.levels[k] = math.max(math.min(sizes[k], before - extra[k]), math.min(before, -sizes[k]))
    end
  end
end

local function since(spent, at, k)
  if #spent == 0 then return 0 end
  local refilled = math.max(0, now - at) * sizes[k] / 60
  return math.max(0, s.spent[k] - spent[k] - refilled)
end

local function learn(limits, remaining, spent, at)
  for k = 1, 4 do
    if limits[k] >= 1 then s.limits[k] = limits[k] end
  end
  resize()
  for k = 1, 4 do
    if sizes[k] > 0 then
      local level = math.min(sizes[k], s.levels[k])
      if remaining[k] >= 0 then level = math.min(level, remaining[k] - since(spent, at, k)) end
      s.levels[k] = level
    end
  end
end

local function refused(at, used_up)
  if used_up == 1 or at < s.cut_at or math.max(unpack(sizes)) == 0 then return 0 end
  for k = 1, 4 do
    if used_up < 0 and sizes[k] > 0 and s.levels[k] < USED_UP * sizes[k] then return 0 end
  end
  s.factor, s.cut_at = math.max(LOWEST, factor * CUT), now
  resize()
  for k = 1, 4 do
    if sizes[k] > 0 then s.levels[k] = math.min(sizes[k], s.levels[k]) end
  end
  return s.factor
end

local function bye(name)
  drop(name)
  redis.call('ZREM', MEMBERS, name)
  redis.call('ZREM', WAITING, name)
  for _, id in ipairs(redis.call('ZRANGE', PLACES, 0, -1)) do
    if starts(id, name) then redis.call('ZREM', PLACES, id) end
  end
end

local changes = {
  ask = function(op) return ask(op[2], op[3], op[4], op[5]) end,
  cancel = function(op) leave(op[2]) end,
  release = function(op) redis.call('ZREM', PLACES, op[2]); correct(op[3]) end,
  learn = function(op) learn(op[2], op[3], op[4], op[5]) end,
  pause = function(op) s.pause_until = math.max(s.pause_until, now + math.min(op[2], LONGEST_PAUSE)) end,
  refused = function(op) return refused(op[2], op[3]) end,
  beat = function(op)
    for _, id in ipairs(op[2]) do redis.call('ZADD', PLACES, exact(now + lease), id) end
  end,
  cap = function(op)
    for k = 1, 4 do
      if op[2][k] > -NEVER then s.levels[k] = math.min(s.levels[k], op[2][k]) end
    end
  end,
  bye = function(op) bye(op[2]) end,
}

for k = 1, 4 do
  if given[k] > 0 then
    if s.given[k] == 0 then s.levels[k] = given[k] end
    s.given[k] = given[k]
  end
end
local elapsed = now - s.at
s.at = now
resize()
for k = 1, 4 do
  if sizes[k] > 0 then s.levels[k] = math.min(sizes[k], s.levels[k] + elapsed * sizes[k] / 60) end
end
redis.call('ZADD', MEMBERS, exact(now), member)
redis.call('ZREMRANGEBYSCORE', MEMBERS, '-inf', '(' .. exact(now - MEMBER_S))
redis.call('ZREMRANGEBYSCORE', PLACES, '-inf', exact(now))
local in_line = redis.call('ZREM', WAITING, member) == 1
if waits then redis.call('ZADD', WAITING, exact(now), member) end
local silent = '(' .. exact(now - lease * SILENT_PART)
for _, name in ipairs(redis.call('ZRANGEBYSCORE', WAITING, '-inf', silent)) do
  redis.call('ZREM', WAITING, name)
  drop(name)
end
count_places()

local results = {}
for n, op in ipairs(ops) do
  results[n] = changes[op[1]](op) or 0
  count_places()
end

local woken, ahead = {}, {0, 0, 0, 0}
local front, found = costs_of(0, WOKEN - 1)
for place, id in ipairs(front) do
  local cost, due = unpack(found[place])
  local wait = wait_s(cost, place - 1, ahead, 0)
  if wait >= NEVER or (wait > 0 and due < NEVER) then break end
  if due > now + EXPECTED or due < now - MISSED then
    redis.call('HSET', WAITERS, id, cmsgpack.pack({cost, now}))
    woken[#woken + 1] = id
  end
  add(ahead, cost)
end
if #woken > 0 then redis.call('PUBLISH', ARGV[2], table.concat(woken, ' ')) end

local full = math.max(0, s.pause_until - now)
for k = 1, 4 do
  if sizes[k] > 0 then full = math.max(full, (sizes[k] - s.levels[k]) * 60 / sizes[k]) end
end
redis.call('SET', STATE, cmsgpack.pack(s))
local ttl = string.format('%.0f', math.min(1e12, (KEPT + full) * 1000))
for n = 1, 6 do redis.call('PEXPIRE', KEYS[n], ttl) end
local members = redis.call('ZCARD', MEMBERS)
return cmsgpack.pack({now, s.created, members, s.levels, s.spent, woken, results, in_line})
"""
)

_DIGEST: Final = sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_PARTS: Final = ("state", "line", "waiters", "places", "waiting", "members")


class RedisLimits:
    """The limits of one name in a Redis server.

    url:   such as "redis://:password@host:6379/0", "rediss://..." with TLS, "unix:///run/redis.sock"
    clock: the time in place of the server's, for tests
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        timeout_s: float = _TIMEOUT_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        check_installed()
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        self._url = url
        self._timeout_s = timeout_s
        self._clock = clock
        # The part in braces determines the cluster slot.
        self._keys = [f"llmstream:limits:{{{name}}}:{part}" for part in _PARTS]
        self._channel = f"llmstream:limits:{{{name}}}:woken"
        self._client: Any = Redis.from_pool(
            BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=timeout_s,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),  # the member retries instead
            )
        )

    async def apply(self, batch: Batch) -> Answer:
        """As in `LimitStore`."""
        from redis.exceptions import NoScriptError, RedisError

        now = "" if self._clock is None else repr(self._clock())
        args = (len(self._keys), *self._keys, msgspec.msgpack.encode(batch), self._channel, now)
        try:
            try:
                # EVALSHA: the script's 8 kB would otherwise be sent with every batch.
                found = await self._client.evalsha(_DIGEST, *args)
            except NoScriptError:  # first batch since the server started
                found = await self._client.eval(_SCRIPT, *args)
        except (RedisError, OSError, TimeoutError) as error:
            raise LimitsUnavailable(
                f"the limits in Redis at {redis_server(self._url)} cannot be used: {error}. Check that the "
                "server runs, and the address."
            ) from error
        return _answers.decode(found)

    async def listen(self, woken: Callable[[list[str]], None]) -> None:
        """As in `LimitStore`."""
        from redis.exceptions import RedisError

        task = asyncio.current_task()
        assert task is not None
        while not task.cancelling():  # redis-py swallows a cancellation while it connects
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                async with self._client.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(self._channel)
                    while not task.cancelling():
                        message = await channel.get_message(timeout=self._timeout_s)
                        if message is None:
                            await channel.ping()  # fails if the connection is lost
                        elif message["type"] == "message":
                            woken(message["data"].decode().split())
            await asyncio.sleep(0.5)  # limits wake-up messages to one per second

    async def aclose(self) -> None:
        """As in `LimitStore`."""
        with contextlib.suppress(Exception):
            await self._client.aclose()


def check_installed() -> None:
    """Raises Unsupported without redis-py."""
    try:
        import redis.asyncio  # noqa: F401
    except ImportError as error:
        raise Unsupported(
            "a limiter in Redis needs the extra `redis`: pip install 'llmstream-sdk[redis]'"
        ) from error


_answers: Final = msgspec.msgpack.Decoder(Answer)
