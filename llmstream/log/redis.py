"""Event logs in Redis Streams, for more than one machine (extra `redis`; Redis 5 or newer, or Valkey).

A run is a hash with its record and a stream with its frames, one entry a batch, both in one slot. Scripts
check each change on the server, by the server's clock. The id of an entry is `LAST+1-0` for the batch that
ends with the number LAST (an id must be above 0-0), so a range begins at the batch that holds a number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import msgspec

from llmstream.addresses import redis_server
from llmstream.errors import LogUnavailable, Unsupported
from llmstream.log.store import Acquired, Append, Batch, Claim, RunSlice, RunStatus, Store, Swept

__all__ = ["RedisStore"]

# Timeout of one reply of the server; half of the default lease.
_TIMEOUT_S: Final = 5.0

# One for listening, one for commits, one for reads; the others start and stop runs.
_CONNECTIONS: Final = 8

# The largest commit whose frames are sent to the processes that listen.
_MAX_RUNS: Final = 16
_MAX_DATA: Final = 8_192

# Number of open runs that one sweep checks, chosen at random: every process sweeps.
_SWEPT: Final = 200

# The rules of store.py in Lua. Times are seconds with six digits; "" means None.
_COMMON: Final = """
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1000000
end
local function time(s) return string.format('%.6f', s) end
local function whole(n) return string.format('%d', n) end
-- The record as JSON, and not as a list: redis-py takes 3 us for each item of an answer.
local function record(at)
  local flat, found = redis.call('HGETALL', KEYS[1]), {}
  if #flat == 0 then return '' end
  for i = 1, #flat, 2 do
    found[flat[i]] = flat[i + 1] == '' and cjson.null or flat[i + 1]
  end
  found['now'] = time(at)
  return cjson.encode(found)
end
local function answer(granted, at) return {granted, record(at)} end
-- An open run that nobody renews, closes or sweeps goes after a week.
local unattended = 604800
local function expire(key, s) redis.call('PEXPIRE', key, whole(math.max(1, math.ceil(s * 1000)))) end
"""

_ACQUIRE: Final = (
    _COMMON
    + """
local run, owner, mode = ARGV[1], ARGV[2], ARGV[3]
local lease, takeover, keep = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local at = clock()
local old = redis.call('HMGET', KEYS[1], 'state', 'lease_until', 'tail', 'epoch', 'first', 'started', 'bytes')
local tail, epoch, first, started, bytes = -1, math.floor(at * 1000), 0, time(at), '0'
if old[1] then
  local held = old[1] == 'open' and at <= tonumber(old[2])
  if held or mode == 'new' or (mode == 'take-over' and old[1] ~= 'open') then return answer(0, at) end
  tail, epoch = tonumber(old[3]), tonumber(old[4]) + 1
  first = tail + 1
  if mode == 'take-over' then first, started, bytes = tonumber(old[5]), old[6], old[7] end
end
if mode ~= 'take-over' then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[1], 'run', run, 'state', 'open', 'first', whole(first), 'tail', whole(tail),
  'epoch', whole(epoch), 'owner', owner, 'started', started, 'changed', time(at), 'ended', '',
  'lease_until', time(at + lease), 'lost_at', time(at + lease + takeover), 'stopping', '0', 'bytes', bytes,
  'keep_s', ARGV[6], 'left_s', ARGV[7], 'seen', time(at))
expire(KEYS[1], unattended + 2 * keep)
return answer(1, at)
"""
)

_APPEND: Final = (
    _COMMON
    + """
local epoch, first, count, data = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local state, lease, lost = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local at = clock()
local old = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'tail', 'lost_at', 'lease_until', 'keep_s',
  'changed')
if not old[1] or old[1] ~= 'open' or tonumber(old[2]) ~= epoch or tonumber(old[3]) + 1 ~= first
    or (lost and at <= tonumber(old[4]) and at >= 2 * tonumber(old[7]) - tonumber(old[5])) then
  return answer(0, at)
end
local tail, keep = first - 1 + count, tonumber(old[6])
local takeover = tonumber(old[4]) - tonumber(old[5])
if count > 0 then
  redis.call('XADD', KEYS[2], whole(tail + 1) .. '-0', 'count', whole(count), 'time', time(at), 'data', data)
end
redis.call('HSET', KEYS[1], 'state', state, 'tail', whole(tail), 'epoch', whole(epoch + (lost and 1 or 0)),
  'changed', time(at), 'ended', state == 'open' and '' or time(at),
  'lease_until', time(at + lease), 'lost_at', time(at + lease + takeover))
redis.call('HINCRBY', KEYS[1], 'bytes', #data)
if state == 'open' then
  expire(KEYS[1], unattended + 2 * keep)
  expire(KEYS[2], unattended + 2 * keep)
else
  expire(KEYS[1], 2 * keep)
  expire(KEYS[2], keep)
end
local new = record(at)
if ARGV[8] ~= '' then
  redis.call('PUBLISH', ARGV[8], table.concat({ARGV[9], new, whole(first), whole(count), data}, '\\n'))
end
return {1, new}
"""
)

_READ: Final = (
    _COMMON
    + """
local from, most = whole(tonumber(ARGV[1]) + 2) .. '-0', tonumber(ARGV[2])
local found, size = {}, 0
while size < most do
  local some = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 32)
  for _, entry in ipairs(some) do
    if size >= most then break end
    local fields = entry[2]
    found[#found + 1] = {entry[1], fields[2], fields[4], fields[6]}
    size = size + #fields[6]
    from = '(' .. entry[1]
  end
  if #some < 32 then break end
end
return {redis.call('EXISTS', KEYS[2]), record(clock()), found}
"""
)

_STOP: Final = (
    _COMMON
    + """
if redis.call('HGET', KEYS[1], 'state') == 'open' then redis.call('HSET', KEYS[1], 'stopping', '1') end
return answer(1, clock())
"""
)

_SEEN: Final = (
    _COMMON
    + """
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'seen', time(clock())) end
return answer(1, clock())
"""
)


class RedisStore(Store):
    """Runs in a Redis server.

    url:    such as "redis://:password@host:6379/0", "rediss://..." with TLS, "unix:///run/redis.sock"
    prefix: of the keys
    """

    # For Redis's default `appendfsync everysec`: one interval, and the sync that may be in progress.
    may_lose_s = 2.5

    def __init__(self, url: str, *, prefix: str = "llmstream", timeout_s: float = _TIMEOUT_S) -> None:
        self._url = url
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._client: Any = None
        # Redis also sends a message back to its sender.
        self._sender = os.urandom(8).hex()
        self._hashes: dict[str, str] = {}

    async def open(self) -> None:
        """As in `Store`."""
        try:
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise Unsupported(
                "an event log in Redis needs the extra `redis`: pip install 'llmstream-sdk[redis]'"
            ) from error
        pool = BlockingConnectionPool.from_url(
            self._url,
            max_connections=_CONNECTIONS,
            timeout=None,  # each caller takes a connection from the pool
            socket_timeout=self._timeout_s,
            socket_connect_timeout=self._timeout_s,
            retry=Retry(NoBackoff(), 0),  # producers and readers retry instead
        )
        self._client = Redis.from_pool(pool)
        try:
            async with self._reached():
                await self._load()
        except BaseException:
            await self.aclose()
            raise

    async def _load(self) -> None:
        for script in (_ACQUIRE, _APPEND, _READ, _STOP, _SEEN):
            found = await self._client.script_load(script)
            self._hashes[script] = found.decode() if isinstance(found, bytes) else found

    async def aclose(self) -> None:
        """As in `Store`."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(OSError):
                await client.aclose()

    async def acquire(self, claim: Claim) -> Acquired:
        """As in `Store`."""
        left = "" if claim.left_s is None else claim.left_s
        args = (claim.run, claim.owner, claim.mode, claim.lease_s, claim.takeover_s, claim.keep_s, left)
        (found,) = await self._call(_ACQUIRE, [(claim.run, args)], changed=[claim.run], opened=claim.run)
        status = _status(found)
        assert status is not None  # the script has just written it, or refused because of it
        return Acquired(bool(found[0]), status)

    async def append(self, appends: Sequence[Append]) -> Sequence[RunStatus | None]:
        """As in `Store`."""
        changed = [append.run for append in appends if append.count or append.state != "open"]
        size = sum(len(append.data) for append in appends)
        # For a small commit, the scripts publish the frames themselves, so readers need not request them.
        sent = len(appends) <= _MAX_RUNS and size <= _MAX_DATA
        to = (f"{self._prefix}:changed", self._sender) if sent else ("", "")
        calls = [
            (
                a.run,
                (a.epoch, a.first, a.count, a.data, a.state, a.lease_s, int(a.lost), *to),
            )
            for a in appends
        ]
        found = await self._call(
            _APPEND,
            calls,
            changed=() if sent else changed,
            ended=[append.run for append in appends if append.state != "open"],
        )
        return [_status(answer) for answer in found]

    async def read(self, wanted: Sequence[tuple[str, int]], max_bytes: int) -> Sequence[RunSlice]:
        """As in `Store`."""
        found = await self._call(_READ, [(run, (after, max_bytes)) for run, after in wanted])
        return [_slice(answer) for answer in found]

    async def request_stop(self, run: str) -> RunStatus | None:
        """As in `Store`."""
        (found,) = await self._call(_STOP, [(run, ())], changed=[run])
        return _status(found)

    async def mark_seen(self, runs: Sequence[str]) -> None:
        """As in `Store`."""
        await self._call(_SEEN, [(run, ()) for run in runs])

    async def delete(self, run: str) -> None:
        """As in `Store`."""
        async with self._reached() as client:
            await client.delete(*self._keys(run))
            await client.srem(f"{self._prefix}:open", run)
            await client.publish(f"{self._prefix}:changed", self._message([run]))

    async def sweep(self) -> Swept:
        """As in `Store`. Redis itself deletes expired keys; this finds runs whose producers died."""
        async with self._reached() as client:
            found = await client.srandmember(f"{self._prefix}:open", _SWEPT)
        runs = [run.decode() for run in found]
        if not runs:
            return Swept([])
        statuses = [part.status for part in await self.read([(run, 2**52) for run in runs], 1)]
        over = [run for run, status in zip(runs, statuses, strict=True) if status is None or status.ended]
        if over:
            async with self._reached() as client:
                await client.srem(f"{self._prefix}:open", *over)
        return Swept([status.run for status in statuses if status is not None and status.is_lost])

    async def listen(self, on_change: Callable[[str | None], None]) -> None:
        """As in `Store`. One channel for all runs; a message has the names of those in one commit."""
        while True:
            with contextlib.suppress(LogUnavailable):
                async with (
                    self._reached() as client,
                    client.pubsub(ignore_subscribe_messages=True) as channel,
                ):
                    await channel.subscribe(f"{self._prefix}:changed")
                    on_change(None)
                    while True:
                        message = await channel.get_message(timeout=self._timeout_s)
                        if message is None:
                            await channel.ping()  # fails if the connection is lost
                        elif message["type"] == "message":
                            self._on_message(message["data"], on_change)
            await asyncio.sleep(0.5)  # readers poll meanwhile

    def _on_message(self, message: bytes, on_change: Callable[[str | None], None]) -> None:
        if message[:1] == b"[":
            sender, *runs = _names.decode(message)
            for run in runs if sender != self._sender else ():
                on_change(run)
            return
        by, record, first, count, data = message.split(b"\n", 4)
        if by.decode() == self._sender:
            return
        status = _records.decode(record)
        if self.committed is None:
            on_change(status.run)
        else:
            append = Append(status.run, status.epoch, int(first), int(count), data, status.state, 0.0)
            self.committed(append, status)

    async def _call(
        self,
        script: str,
        calls: Sequence[tuple[str, tuple[Any, ...]]],
        *,
        changed: Sequence[str] = (),
        ended: Sequence[str] = (),
        opened: str | None = None,
    ) -> list[Any]:
        """Runs a script for each run, in one round trip, and then reports the changes."""
        from redis.exceptions import NoScriptError

        async with self._reached() as client:
            for last in (False, True):
                batch = client.pipeline(transaction=False)
                for run, args in calls:
                    batch.evalsha(self._hashes[script], 2, *self._keys(run), *args)
                if opened is not None:
                    batch.sadd(f"{self._prefix}:open", opened)
                if ended:
                    batch.srem(f"{self._prefix}:open", *ended)
                if changed:
                    batch.publish(f"{self._prefix}:changed", self._message(changed))
                found = await batch.execute(raise_on_error=False)
                if last or not any(isinstance(answer, NoScriptError) for answer in found):
                    break
                await self._load()  # the server was restarted; repeated appends are refused
            for answer in found:
                if isinstance(answer, Exception):
                    raise answer
            return list(found[: len(calls)])

    def _message(self, runs: Sequence[str]) -> bytes:
        """Marks messages of this process, which the sender ignores."""
        return msgspec.json.encode([self._sender, *runs])

    def _keys(self, run: str) -> tuple[str, str]:
        """Of record and frames. The part in braces determines the cluster slot."""
        return f"{self._prefix}:{{{run}}}:run", f"{self._prefix}:{{{run}}}:frames"

    @contextlib.asynccontextmanager
    async def _reached(self) -> AsyncIterator[Any]:
        from redis.exceptions import RedisError

        if self._client is None:
            raise LogUnavailable("the event log is closed", retryable=False)
        try:
            yield self._client
        except (RedisError, OSError, TimeoutError) as error:
            raise LogUnavailable(
                f"the event log in Redis at {redis_server(self._url)} cannot be used: {error}. Check that "
                "the server runs, and the address."
            ) from error


_names: Final = msgspec.json.Decoder(list[str])
_records: Final = msgspec.json.Decoder(RunStatus, strict=False)  # numbers are strings in a hash


def _status(answer: Any) -> RunStatus | None:
    """The record in a script's reply, which contains the grant and the record."""
    return _records.decode(answer[1]) if answer[1] else None


def _slice(answer: Any) -> RunSlice:
    exists, _, entries = answer
    status = _status(answer)
    if status is not None and status.ended is not None and not exists:
        status = msgspec.structs.replace(status, first=status.tail + 1)  # its frames have expired
    batches = []
    for entry, count, at, data in entries:
        last, number = int(entry.split(b"-")[0]) - 1, int(count)
        batches.append(Batch(last - number + 1, number, float(at), data))
    return RunSlice(status, batches)
