"""Answers in Redis, for more than one machine (extra `redis`; Redis 5 or newer, or Valkey).

An answer is a string; with a limit, a sorted set has the times of use, and a hash the sizes. A claim is a key
that expires, beside a list of what was published. All keys are in one slot of a cluster.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from llmstream.addresses import redis_server
from llmstream.errors import Unsupported
from llmstream.middleware.caching.stores import LEASE_S, Watched
from llmstream.transport.sessions import LoopBound

__all__ = ["RedisCache"]

# In braces, so that a cluster keeps the keys of a script in one slot.
_PREFIX: Final = "{llmstream-cache}"
# A request waits for the cache at most this long, and is then sent.
_TIMEOUT_S: Final = 5.0
# Maximum number of connections: further concurrent readers wait instead of opening sockets.
_CONNECTIONS: Final = 16
_CLAIM_MS: Final = round(LEASE_S * 1000)

# KEYS: answer, times of use, sizes. The total of the sizes is a field without a name.
_GET: Final = """
local found = redis.call('GET', KEYS[1])
if ARGV[1] ~= '' then
  if found then
    redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
  elseif redis.call('ZREM', KEYS[2], KEYS[1]) == 1 then
    redis.call('HINCRBY', KEYS[3], '', -tonumber(redis.call('HGET', KEYS[3], KEYS[1]) or 0))
    redis.call('HDEL', KEYS[3], KEYS[1])
  end
end
return found
"""
_PUT: Final = """
local most, ttl = tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('SET', KEYS[1], ARGV[1])
if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
if most == 0 then return end
local before = tonumber(redis.call('HGET', KEYS[3], KEYS[1]) or 0)
redis.call('ZADD', KEYS[2], ARGV[2], KEYS[1])
redis.call('HSET', KEYS[3], KEYS[1], #ARGV[1])
local total = redis.call('HINCRBY', KEYS[3], '', #ARGV[1] - before)
while total > most do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not oldest then break end
  redis.call('ZREM', KEYS[2], oldest)
  local size = tonumber(redis.call('HGET', KEYS[3], oldest) or 0)
  redis.call('HDEL', KEYS[3], oldest)
  redis.call('DEL', oldest)
  total = redis.call('HINCRBY', KEYS[3], '', -size)
end
"""
# KEYS: claim, parts.
_CLAIM: Final = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('DEL', KEYS[2])
return 1
"""
_PUBLISH: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[3]) end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
"""
_WATCH: Final = """
local owner = redis.call('GET', KEYS[1])
if not owner then return false end
return {owner, redis.call('LRANGE', KEYS[2], ARGV[1], -1)}
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1], KEYS[2]) end
"""


class _Address(str):
    """An address whose repr has no password."""

    def __repr__(self) -> str:
        return f"<Redis at {redis_server(self)}>"


async def _open(url: str) -> AsyncGenerator[Any]:
    from redis.asyncio import BlockingConnectionPool, Redis

    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS,
        timeout=_TIMEOUT_S,
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
    )
    client = Redis.from_pool(pool)
    try:
        yield client
    finally:
        await client.aclose()


# Shared by caches: the client of a garbage-collected cache could not close its connections.
_clients: Final = LoopBound(_open)


class RedisCache:
    """A `SharedStore` in a Redis server.

    url:    such as "redis://:password@host:6379/0", "rediss://..." with TLS, "unix:///run/redis.sock"
    raises: Unsupported without the extra `redis`
    """

    def __init__(self, url: str, *, ttl_s: float | None = None, max_bytes: int | None = None) -> None:
        try:
            import redis.asyncio  # noqa: F401  # not at the first answer, whose errors are only logged
        except ImportError as error:
            raise Unsupported(
                "a cache in Redis needs the extra `redis`: pip install 'llmstream-sdk[redis]'"
            ) from error
        self._url = _Address(url)
        self._ttl_ms = 0 if ttl_s is None else max(1, round(ttl_s * 1000))
        self._max_bytes = max_bytes

    async def get(self, key: str) -> bytes | None:
        """As in `CacheStore`."""
        now = "" if self._max_bytes is None else repr(time.time())
        found: bytes | None = await self._run(_GET, self._answer(key), now)
        return found

    async def put(self, key: str, data: bytes) -> None:
        """As in `CacheStore`."""
        most = self._max_bytes or 0
        await self._run(_PUT, self._answer(key), data, repr(time.time()), most, self._ttl_ms)

    async def claim(self, key: str, owner: str) -> bool:
        """As in `SharedStore`."""
        return bool(await self._run(_CLAIM, self._claimed(key), owner, _CLAIM_MS))

    async def publish(self, key: str, owner: str, lines: Sequence[bytes]) -> bool:
        """As in `SharedStore`."""
        data = b"\n".join(lines)
        return bool(await self._run(_PUBLISH, self._claimed(key), owner, _CLAIM_MS, data))

    async def watch(self, key: str, place: int) -> Watched | None:
        """As in `SharedStore`."""
        found = await self._run(_WATCH, self._claimed(key), place)
        if not found:
            return None
        owner, parts = found
        lines = [line for part in parts for line in part.split(b"\n")]
        return Watched(owner.decode(), lines, place + len(parts))

    async def release(self, key: str, owner: str) -> None:
        """As in `SharedStore`."""
        await self._run(_RELEASE, self._claimed(key), owner)

    def _answer(self, key: str) -> list[str]:
        return [f"{_PREFIX}:{key}", f"{_PREFIX}:used", f"{_PREFIX}:sizes"]

    def _claimed(self, key: str) -> list[str]:
        return [f"{_PREFIX}:{key}:claim", f"{_PREFIX}:{key}:parts"]

    async def _run(self, script: str, keys: list[str], *arguments: Any) -> Any:
        from redis.exceptions import RedisError

        client = await _clients.get(self._url)
        try:
            return await client.register_script(script)(keys=keys, args=arguments)
        except RedisError as error:
            raise ConnectionError(f"Redis at {redis_server(self._url)}: {error}") from error
