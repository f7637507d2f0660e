"""The ledger in Redis, for several machines (extra `redis`; Redis 5 or newer, or Valkey).

Calls are numbered, and each is a field of one hash. Scripts enter and settle them on the server, so that
gateways on one budget overspend at most by the calls in flight. Also stored are the calls of the last minute
of each key, and the spending of keys and tags by minute and by hour, so that no sum needs single calls. All
keys are in one slot of a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from secrets import token_bytes
from typing import Any, ClassVar, Final, Unpack

import msgspec

from llmstream.addresses import redis_server
from llmstream.errors import ConnectionFailed, InvalidRequest, LLMStreamError, Unsupported
from llmstream.gateway.accounts import Row
from llmstream.gateway.ledger import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Budget,
    Filter,
    GroupedBy,
    Key,
    Ledger,
    Sum,
    budgets_of,
    digest,
    is_lost,
    limited,
    over_budget,
    payers_of,
    this_process,
)

__all__ = ["RedisLedger"]

_TIMEOUT_S: Final = 5.0
_KEEP_S: Final = 90 * DAY_S
# Rows per reply when the log is read.
_PAGE: Final = 500
# `started` is by the clock of a gateway, and the order by the server's; clocks of machines differ by less.
_SLACK_S: Final = 3600.0

_COMMON: Final = (
    f"""
local MINUTE, HOUR, DAY = {MINUTE_S:.0f}, {HOUR_S}, {DAY_S:.0f}
"""
    + """
local function exact(n) return string.format('%.17g', n) end
local function whole(n) return string.format('%d', n) end
-- KEYS of sums begin at 6: by minute and by hour, for each payer.
local function spend(usd, started)
  if usd == 0 then return end
  for n = 6, #KEYS, 2 do
    redis.call('HINCRBYFLOAT', KEYS[n], whole(math.floor(started / MINUTE)), exact(usd))
    redis.call('EXPIRE', KEYS[n], 2 * DAY)
    -- Of two days at most, where a key is used without a pause.
    if redis.call('HLEN', KEYS[n]) > 2 * DAY / MINUTE then
      for _, minute in ipairs(redis.call('HKEYS', KEYS[n])) do
        if tonumber(minute) < (started - DAY) / MINUTE then redis.call('HDEL', KEYS[n], minute) end
      end
    end
    redis.call('HINCRBYFLOAT', KEYS[n + 1], whole(math.floor(started / HOUR)), exact(usd))
  end
end
"""
)

# KEYS: numbers, rows, open calls, calls of the minute, their tokens; sums.
_RESERVE: Final = (
    _COMMON
    + """
local now, row, owner, tokens, rpm, tpm, cost, started, budgets, keep = unpack(cmsgpack.unpack(ARGV[1]))
if now < 0 then
  local t = redis.call('TIME')
  now = tonumber(t[1]) + tonumber(t[2]) / 1000000
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', exact(now - MINUTE))) do
  redis.call('HINCRBY', KEYS[5], 'all', whole(-tonumber(redis.call('HGET', KEYS[5], id) or 0)))
  redis.call('HDEL', KEYS[5], id)
  redis.call('ZREM', KEYS[4], id)
end
local used = tonumber(redis.call('HGET', KEYS[5], 'all') or 0)
-- The oldest call leaves the minute then; there may be room, or a next one to wait for.
local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2]
local wait = math.max(0.1, (tonumber(first) or now) + MINUTE - now)
if rpm >= 0 and redis.call('ZCARD', KEYS[4]) >= rpm then return cmsgpack.pack({'requests', wait}) end
-- A call that is larger than the limit passes where nothing else does; else it would wait for ever.
if tpm >= 0 and used > 0 and used + tokens > tpm then return cmsgpack.pack({'tokens', wait}) end

-- A minute or hour that is partly in the window counts.
local function spent_of(key, size, window)
  local since, found, total = math.floor((now - window) / size), {}, 0
  local flat = redis.call('HGETALL', key)
  for n = 1, #flat, 2 do
    local time, usd = tonumber(flat[n]), tonumber(flat[n + 1])
    if time >= since then
      found[#found + 1] = {(time + 1) * size, usd}
      total = total + usd
    elseif size == MINUTE and time < math.floor((now - DAY) / size) then
      redis.call('HDEL', key, flat[n])
    end
  end
  return found, total
end

for n, budget in ipairs(budgets) do
  local payer, usd, window = unpack(budget)
  local size, key = HOUR, KEYS[7 + 2 * payer]
  if window < DAY then size, key = MINUTE, KEYS[6 + 2 * payer] end
  local found, total = spent_of(key, size, window)
  local needed = total + cost - usd
  if needed > 0 then
    table.sort(found, function(a, b) return a[1] < b[1] end)
    wait = window
    for _, one in ipairs(found) do
      needed = needed - one[2]
      if needed <= 0 then wait = math.max(1, one[1] + window - now) break end
    end
    return cmsgpack.pack({'budget', wait, n - 1, total})
  end
end

local id = redis.call('HINCRBY', KEYS[1], 'last', 1)
redis.call('HSET', KEYS[2], id, row)
redis.call('HSET', KEYS[3], id, owner)
redis.call('ZADD', KEYS[4], exact(now), id)
redis.call('HSET', KEYS[5], id, whole(tokens))
redis.call('HINCRBY', KEYS[5], 'all', whole(tokens))
redis.call('EXPIRE', KEYS[4], 2 * MINUTE)
redis.call('EXPIRE', KEYS[5], 2 * MINUTE)
spend(cost, started)

-- A few at each call, so that none waits for many.
for _ = 1, 10 do
  local oldest = tonumber(redis.call('HGET', KEYS[1], 'first') or 1)
  local old = redis.call('HGET', KEYS[2], oldest)
  if oldest >= id or (old and cjson.decode(old).started >= now - keep) then break end
  redis.call('HDEL', KEYS[2], oldest)
  redis.call('HDEL', KEYS[3], oldest)
  redis.call('HSET', KEYS[1], 'first', oldest + 1)
end
return cmsgpack.pack({'entered', id})
"""
)

_SETTLE: Final = (
    _COMMON
    + """
local id, row, tokens, cost, started = unpack(cmsgpack.unpack(ARGV[1]))
local old = redis.call('HGET', KEYS[2], id)
if not old then return end
local before = cjson.decode(old).cost_usd
redis.call('HSET', KEYS[2], id, row)
redis.call('HDEL', KEYS[3], id)
spend(cost - (type(before) == 'number' and before or 0), started)
local reserved = redis.call('HGET', KEYS[5], id)
if reserved then
  redis.call('HSET', KEYS[5], id, whole(tokens))
  redis.call('HINCRBY', KEYS[5], 'all', whole(tokens - tonumber(reserved)))
end
"""
)

# KEYS: rows, open calls.
_LOSE: Final = """
if redis.call('HDEL', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""

# KEYS: digests by name, keys by digest.
_PUT_KEY: Final = """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1
"""

_rows: Final = msgspec.json.Decoder(Row)
_keys: Final = msgspec.json.Decoder(Key)


class RedisLedger(Ledger):
    """Keys and calls in a Redis server. Its clock applies, so that clocks of gateways may differ.

    url:    such as "redis://:password@host:6379/0", "rediss://..." with TLS, "unix:///run/redis.sock"
    prefix: of the keys
    clock:  the time in place of the server's, for tests
    keep_s: how long the log keeps a call, at least a day; by default 90 days
    raises: ConnectionFailed if the server does not answer; Unsupported without redis-py
    """

    is_remote: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "llmstream",
        clock: Callable[[], float] | None = None,
        keep_s: float = _KEEP_S,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._url = url
        self._prefix = f"{prefix}:{{gateway}}:"
        self._clock = clock
        self._keep_s = keep_s
        self._owner = this_process()
        self._client = _client(url, timeout_s)
        register = self._client.register_script
        self._reserve, self._settle = register(_RESERVE), register(_SETTLE)
        self._lose, self._put = register(_LOSE), register(_PUT_KEY)
        self._seen_keys = False
        with self._reached() as client:
            client.ping()

    def close(self) -> None:
        """As in `Ledger`."""
        self._client.close()

    # Keys.

    def _put_key(self, key: Key, found_by: bytes) -> bool:
        stored = msgspec.structs.replace(key, created=key.created or self._now())
        places = [self._key("names"), self._key("keys")]
        with self._reached():
            return bool(self._put(places, [key.name, found_by, msgspec.json.encode(stored)]))

    def keys(self) -> list[Key]:
        """As in `Ledger`."""
        with self._reached() as client:
            found = client.hvals(self._key("keys"))
        return sorted(map(_keys.decode, found), key=lambda key: key.name)

    def revoke(self, name: str) -> None:
        """As in `Ledger`."""
        with self._reached() as client:
            found_by = client.hget(self._key("names"), name)
            if found_by is None:
                raise InvalidRequest(f"there is no key named {name!r}. `gateway keys list` shows all.")
            # No other operation changes a key, so nothing can be overwritten.
            key = _keys.decode(client.hget(self._key("keys"), found_by))
            revoked = msgspec.structs.replace(key, revoked=self._now())
            client.hset(self._key("keys"), found_by, msgspec.json.encode(revoked))

    def find(self, secrets_given: Sequence[str]) -> Key | None:
        """As in `Ledger`."""
        if not secrets_given:
            return None
        with self._reached() as client:
            found = client.hmget(self._key("keys"), [digest(secret) for secret in secrets_given])
        known = [_keys.decode(data) for data in found if data is not None]
        return next((key for key in known if key.revoked is None), None)

    @property
    def has_keys(self) -> bool:
        """As in `Ledger`."""
        if not self._seen_keys:  # revoked ones stay, so this never becomes false again
            with self._reached() as client:
                self._seen_keys = bool(client.exists(self._key("keys")))
        return self._seen_keys

    # Calls.

    def reserve(
        self,
        row: Row,
        key: Key,
        tokens: int,
        cost_usd: float | None,
        tag_budget: Budget | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """As in `Ledger`."""
        budgets = budgets_of(key, tag_budget, row, cost_usd)
        payers = payers_of(row)
        entered = msgspec.structs.replace(row, input_tokens=tokens, cost_usd=cost_usd)
        rpm, tpm = key.requests_per_minute, key.tokens_per_minute
        asked = (
            -1 if self._clock is None else self._clock(),
            msgspec.json.encode(entered).decode(),
            self._owner,
            tokens,
            -1 if rpm is None else rpm,
            -1 if tpm is None else tpm,
            cost_usd or 0.0,
            row.started,
            [(payers.index(one.payer), one.usd, one.window_s) for one in budgets],
            self._keep_s,
        )
        with self._reached():
            answer = self._reserve(self._places(row), [msgspec.msgpack.encode(asked)])
        match msgspec.msgpack.decode(answer):
            case ["entered", number]:
                row.id = number
            case ["requests", wait_s]:
                raise limited(f"{rpm} requests a minute", key, wait_s)
            case ["tokens", wait_s]:
                raise limited(f"{tpm} tokens a minute", key, wait_s)
            case [_, wait_s, number, spent]:
                raise over_budget(budgets[number], spent, cost_usd or 0.0, wait_s)

    def settle(self, row: Row, *, waits: bool = True) -> None:
        """As in `Ledger`."""
        used = row.input_tokens + row.output_tokens
        data = msgspec.json.encode(msgspec.structs.replace(row, id=0)).decode()
        asked = (row.id, data, used, row.cost_usd or 0.0, row.started)
        with self._reached():
            self._settle(self._places(row), [msgspec.msgpack.encode(asked)])

    def rows(self, *, limit: int = 100, **wanted: Unpack[Filter]) -> list[Row]:
        """As in `Ledger`."""
        found = list[Row]()
        for row in self._fitting(wanted):
            found.append(row)
            if len(found) == limit:
                break
        return found

    def sums(self, group: GroupedBy, **wanted: Unpack[Filter]) -> list[Sum]:
        """As in `Ledger`."""
        found = dict[str, Sum]()
        for row in self._fitting(wanted):
            name = (
                time.strftime("%Y-%m-%d", time.gmtime(row.started)) if group == "day" else getattr(row, group)
            )
            found[name] = _added(found.get(name) or Sum(name, 0, 0, 0, 0, 0.0, 0), row)
        if group == "day":
            return sorted(found.values(), key=lambda one: one.group)
        return sorted(found.values(), key=lambda one: (one.cost_usd, one.calls), reverse=True)

    def _fitting(self, wanted: Filter) -> Iterator[Row]:
        """Yields the matching calls, newest first."""
        since = wanted.get("since", 0.0)
        with self._reached() as client:
            last, first = (int(n or 0) for n in client.hmget(self._key("numbers"), ["last", "first"]))
        for top in range(last, max(first, 1) - 1, -_PAGE):
            numbers = range(top, max(top - _PAGE, first - 1, 0), -1)
            with self._reached() as client:
                page = client.hmget(self._key("calls"), list(numbers))
            for number, data in zip(numbers, page, strict=True):
                if data is None:
                    continue
                row = _rows.decode(data)
                row.id = number
                if row.started < since - _SLACK_S:
                    return
                if row.started >= since and _fits(row, wanted):
                    yield row

    def recover(self) -> int:
        """As in `Ledger`."""
        lost = 0
        with self._reached() as client:
            for number, owner in client.hgetall(self._key("open")).items():
                data = client.hget(self._key("calls"), number)
                if data is None:
                    continue
                row = _rows.decode(data)
                if is_lost(owner.decode(), self._now() - row.started):
                    ended = msgspec.structs.replace(row, outcome="lost", code="gateway-died")
                    places = [self._key("calls"), self._key("open")]
                    lost += self._lose(places, [number, msgspec.json.encode(ended)])
        return lost

    # Data of the gateway itself.

    def secret(self, name: str) -> bytes:
        """As in `Ledger`."""
        place = self._key(f"secret:{name}")
        with self._reached() as client:
            client.set(place, token_bytes(32), nx=True)
            return bytes(client.get(place))

    def carry(self, entries: Sequence[tuple[str, bytes]], keep_s: float) -> None:
        """As in `Ledger`."""
        with self._reached() as client:
            batch = client.pipeline(transaction=False)
            for call_id, data in entries:
                batch.set(self._key(f"carried:{call_id}"), data, ex=int(keep_s))
            batch.execute()

    def carried(self, call_ids: Sequence[str]) -> dict[str, bytes]:
        """As in `Ledger`."""
        if not call_ids:
            return {}
        with self._reached() as client:
            found = client.mget([self._key(f"carried:{call_id}") for call_id in call_ids])
        return {call_id: data for call_id, data in zip(call_ids, found, strict=True) if data is not None}

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _places(self, row: Row) -> list[str]:
        names = ["numbers", "calls", "open", f"minute:{row.key}", f"minute-tokens:{row.key}"]
        for payer in payers_of(row):
            names += [f"minutes:{payer}", f"hours:{payer}"]
        return [self._key(name) for name in names]

    def _now(self) -> float:
        return time.time() if self._clock is None else self._clock()

    @contextmanager
    def _reached(self) -> Iterator[Any]:
        from redis.exceptions import RedisError

        try:
            yield self._client
        except (RedisError, OSError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> LLMStreamError:
        return ConnectionFailed(
            f"the store in Redis at {redis_server(self._url)} cannot be used: {error}. Check that the server "
            "runs, and the address."
        )


def _client(url: str, timeout_s: float) -> Any:
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError
        from redis.retry import Retry
    except ImportError as error:
        raise Unsupported(
            "a gateway's store in Redis needs the extra `redis`: pip install 'llmstream-sdk[redis]'"
        ) from error
    # Retried once if the connection was closed, as after a server restart. Not after a timeout: the call may
    # have been entered.
    retry = Retry(NoBackoff(), 1, supported_errors=(ConnectionError,))
    return Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=retry)


def _fits(row: Row, wanted: Filter) -> bool:
    same = all(getattr(row, name) == wanted[name] for name in ("key", "tag", "outcome") if wanted.get(name))
    model = wanted.get("model", "")
    return same and (model in row.model or model in row.asked)


def _added(to: Sum, row: Row) -> Sum:
    return Sum(
        to.group,
        to.calls + 1,
        to.failed + (row.outcome not in ("complete", "open")),
        to.input_tokens + row.input_tokens,
        to.output_tokens + row.output_tokens,
        to.cost_usd + (row.cost_usd or 0.0),
        to.unknown_cost + (row.cost_usd is None),
    )
