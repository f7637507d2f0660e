"""Sockets that wait for the next request: each can serve one at a time, and again and again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Hashable
from typing import Any, Final

from llmstream.exchange import Talk
from llmstream.transport.loop_bound import LoopBound
from llmstream.transport.websocket import Socket

__all__ = ["Line", "SocketPool", "current_pool"]

_LIFETIME_S: Final = 50 * 60.0
"""OpenAI closes a socket after 60 minutes; an answer that begins by then has ten to end
(developers.openai.com/api/docs/guides/websocket-mode, read 2026-11)."""

_IDLE_S: Final = 300.0
"""Load balancers forget connections that are silent for six minutes or so, and tell nobody."""

_MOST_IDLE: Final = 32


class Line:
    """A socket and the messages that went over it.

    key:   whom it can serve: the same address, headers and session
    since: when it was opened, in loop time
    """

    def __init__(self, socket: Socket, talk: Talk, key: Hashable) -> None:
        self.socket = socket
        self.talk = talk
        self.key = key
        self.served = False
        self.since = asyncio.get_running_loop().time()
        self._watch: asyncio.Task[None] | None = None

    def usable(self) -> bool:
        """Whether another request may go over it."""
        young = asyncio.get_running_loop().time() - self.since < _LIFETIME_S
        return young and self.talk.at_rest and not self.socket.closed

    def rest(self) -> None:
        """From now on pings are answered, and the socket closes when it is left alone for too long."""
        self._watch = asyncio.create_task(self._wait(), name="llmstream: a WebSocket at rest")

    async def wake(self) -> None:
        """The next request comes; only one at a time may wait for messages."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])

    def drop(self) -> None:
        """Closes the socket now."""
        if self._watch is not None:
            self._watch.cancel()
        self.socket.drop()

    async def _wait(self) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_IDLE_S):
                while (message := await self.socket.receive()) and self.talk.hear(message) == "beside":
                    pass
        self.socket.drop()  # what came is a farewell, as nothing was asked


class SocketPool:
    """Lines at rest, the longest first."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._closed = False

    def take(self, key: Hashable, request: Any) -> Line | None:
        """A line for a request: the one whose last answer it goes on from, else the longest at rest."""
        self._lines = [line for line in self._lines if not line.socket.closed]
        fitting = [line for line in self._lines if line.key == key and line.usable()]
        if not fitting:
            return None
        line = next((line for line in fitting if line.talk.continues(request)), fitting[0])
        self._lines.remove(line)
        return line

    def put(self, line: Line) -> None:
        """A line whose answer is over comes back, or is closed where it cannot serve again."""
        if self._closed or not line.usable():
            line.drop()
            return
        self._lines.append(line)
        line.rest()
        if len(self._lines) > _MOST_IDLE:
            self._lines.pop(0).drop()

    def close(self) -> None:
        """Closes all that is at rest, and from now on whatever comes back."""
        self._closed = True
        lines, self._lines = self._lines, []
        for line in lines:
            line.drop()


async def _pool(_: None) -> AsyncGenerator[SocketPool]:
    pool = SocketPool()
    try:
        yield pool
    finally:
        pool.close()
        await asyncio.sleep(0)  # the sockets' own close callbacks run in the next turn of the loop


_pools: Final = LoopBound(_pool)


async def current_pool() -> SocketPool:
    """The pool of the running loop, which is closed together with it."""
    return await _pools.get(None)
