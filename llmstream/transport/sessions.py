"""One pooled aiohttp session for each running event loop, closed with it."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
import weakref
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Final, Generic, TypeVar

import aiohttp

from llmstream.transport.aiohttp_patches import CarefulConnector

__all__ = [
    "READ_BUFFER_BYTES",
    "LoopBound",
    "close_session",
    "current_session",
    "is_untouched",
    "new_session",
    "trust",
]


# Objects that live as long as their event loop: opened at first use, closed with it.
#
# Each is the only value of an open async generator. `asyncio.run` and its like close such generators
# last, and so the objects: no close call, no warning, no leak.

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


# The number of forks between the first process and this one: distinguishes it from its parent without a
# system call.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class _Held(Generic[T]):
    """An open object, the generator that closes it, and the process it belongs to."""

    def __init__(self, thing: T, keeper: AsyncGenerator[T]) -> None:
        self.thing = thing
        self.keeper = keeper
        self.forks = _forks

    @property
    def is_closed(self) -> bool:
        """Whether the generator has ended: then it has no frame."""
        return getattr(self.keeper, "ag_frame", None) is None


class LoopBound(Generic[K, T]):
    """One object for each key and loop; after a fork the child opens its own.

    open_thing: an async generator function that yields the object once and closes it afterwards. Not a
    context manager, because its internal generator would be closed as well
    """

    def __init__(
        self,
        open_thing: Callable[[K], AsyncGenerator[T]],
        usable: Callable[[T], bool] = lambda thing: True,
    ) -> None:
        self._open = open_thing
        self._usable = usable
        self._held: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[K, _Held[T]]] = (
            weakref.WeakKeyDictionary()
        )
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )

    async def get(self, key: K) -> T:
        """The object of this key in the running loop."""
        loop = asyncio.get_running_loop()
        held = self._find(loop, key)
        if held is not None:
            return held
        async with self._locks.setdefault(loop, asyncio.Lock()):
            held = self._find(loop, key)
            if held is not None:
                return held
            self._drop_closed_loops()
            keeper = self._open(key)
            thing = await anext(keeper)
            self._held.setdefault(loop, {})[key] = _Held(thing, keeper)
            return thing

    async def drop(self, key: K) -> None:
        """Closes the running loop's object of this key, if any; the next `get` opens another."""
        held = self._held.get(asyncio.get_running_loop(), {}).pop(key, None)
        if held is not None and held.forks == _forks:
            await held.keeper.aclose()

    def _drop_closed_loops(self) -> None:
        """Drops the entries of closed loops: an entry references its loop, and would keep it in memory.

        Called when an object is opened: a loop has no callback for its own close.
        """
        for reference in self._held.keyrefs():
            loop = reference()
            if loop is None or not loop.is_closed():
                continue
            if all(held.is_closed for held in self._held.get(loop, {}).values()):
                self._held.pop(loop, None)
                self._locks.pop(loop, None)

    def _find(self, loop: asyncio.AbstractEventLoop, key: K) -> T | None:
        held = self._held.get(loop, {}).get(key)
        if held is None or held.forks != _forks or not self._usable(held.thing):
            return None
        return held.thing


_CA_VARIABLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
READ_BUFFER_BYTES: Final = 64 * 1024
"""aiohttp stops reading the socket at twice this size: bounds the memory of a slow reader."""


def new_session(*traces: aiohttp.TraceConfig) -> aiohttp.ClientSession:
    """A separate session configured like `current_session`; the caller closes it."""
    return aiohttp.ClientSession(
        # No limit: a stream holds its connection for minutes, and aiohttp's usual 100 would let the next call
        # wait silently. `RateLimiter` is the place for a limit.
        connector=CarefulConnector(limit=0, ssl=trust()),
        # A cookie from one user's response must not be sent with another user's request.
        cookie_jar=aiohttp.DummyCookieJar(),
        # aiohttp's 5 minutes would end a long answer; `Deadlines` applies instead.
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=READ_BUFFER_BYTES,
        trace_configs=list(traces) or None,
    )


async def _session(_: None) -> AsyncGenerator[aiohttp.ClientSession]:
    session = new_session()
    try:
        yield session
    finally:
        await session.close()
        await asyncio.sleep(0)  # the sockets' close callbacks run in the next loop iteration


_sessions: Final = LoopBound(_session, lambda session: not session.closed)


async def current_session() -> aiohttp.ClientSession:
    """The session of the running loop; created at first use, and again after a fork."""
    return await _sessions.get(None)


async def close_session() -> None:
    """Closes the running loop's session with all its connections; the next request opens another."""
    await _sessions.drop(None)


def is_untouched(session: aiohttp.ClientSession) -> bool:
    """Whether no other library observes or replaces the requests of a session configured like ours.

    Tracers, such as those of OpenTelemetry and Sentry, add to every new session; mocks, such as aioresponses
    and vcrpy, replace the method that requests.
    """
    code = getattr(type(session)._request, "__code__", None)
    return not session.trace_configs and code is not None and code.co_filename == aiohttp.client.__file__


def trust() -> ssl.SSLContext | bool:
    """aiohttp's own context, which reads SSL_CERT_FILE, unless another variable adds a bundle."""
    path = next(
        (os.environ[name] for name in _CA_VARIABLES if os.path.isfile(os.environ.get(name, ""))), None
    )
    return True if path is None else _context(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _context(path: str, changed_ns: int) -> ssl.SSLContext:
    """The usual bundle and one more; cached, because reading takes longer than an answer on loopback."""
    context = ssl.create_default_context()
    context.load_verify_locations(path)
    return context
