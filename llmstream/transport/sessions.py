"""One pooled aiohttp session per running event loop, closed together with it."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from collections.abc import AsyncGenerator
from typing import Final

import aiohttp

from llmstream.transport.careful_protocol import CarefulConnector
from llmstream.transport.loop_bound import LoopBound

__all__ = ["close_session", "current_session", "trust"]

_CA_VARIABLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_READ_BUFFER_BYTES: Final = 64 * 1024


async def _session(_: None) -> AsyncGenerator[aiohttp.ClientSession]:
    session = aiohttp.ClientSession(
        connector=CarefulConnector(limit=0, ssl=trust()),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=_READ_BUFFER_BYTES,
    )
    try:
        yield session
    finally:
        await session.close()
        await asyncio.sleep(0)  # the sockets' own close callbacks run in the next turn of the loop


_sessions: Final = LoopBound(_session, lambda session: not session.closed)


async def current_session() -> aiohttp.ClientSession:
    """The session of the running loop; made at first use, and again after a fork."""
    return await _sessions.get(None)


async def close_session() -> None:
    """Closes the running loop's session with all its connections; the next request opens another."""
    await _sessions.drop(None)


def trust() -> ssl.SSLContext | bool:
    """aiohttp's own context, which knows SSL_CERT_FILE, unless another variable adds a bundle."""
    path = next(
        (os.environ[name] for name in _CA_VARIABLES if os.path.isfile(os.environ.get(name, ""))), None
    )
    return True if path is None else _context(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _context(path: str, changed_ns: int) -> ssl.SSLContext:
    """The usual bundle and one more; read once, as that takes longer than an answer on loopback."""
    context = ssl.create_default_context()
    context.load_verify_locations(path)
    return context
