"""Reads responses of disconnected clients to their end, for exact usage (`drain = true` in a route)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from llmstream.errors import IncompleteStream, LLMStreamError
from llmstream.gateway.accounts import Account
from llmstream.serve.body import Body

__all__ = ["Drained", "Drains"]

_log: Final = logging.getLogger("llmstream.gateway")

_T = TypeVar("_T")
_Item = TypeVar("_Item", covariant=True)

# How far the vendor may be ahead of a connected client.
_AHEAD: Final = 64
# A response that takes longer is closed: its vendor may never end it.
_LONGEST_S: Final = 600.0


class Source(Protocol[_Item]):
    """A stream of events or of bytes."""

    def __aiter__(self) -> AsyncIterator[_Item]:
        """Iterates it."""

    async def aclose(self) -> None:
        """Closes it."""


class Drains:
    """The responses still read without a client; a server waits for them before it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, source: Source[_T], account: Account) -> Drained[_T]:
        """Returns the source, read in a separate task."""
        drained = Drained(source, account)
        self._tasks.add(drained.task)
        drained.task.add_done_callback(self._tasks.discard)
        return drained

    async def opened(self, opening: Coroutine[Any, Any, Body], account: Account) -> Body:
        """Returns the body of a call; opens it completely even if the client disconnects meanwhile."""
        task = asyncio.create_task(opening)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                account.left = True
                leaving = asyncio.create_task(_leave(task))
                self._tasks.add(leaving)
                leaving.add_done_callback(self._tasks.discard)
            raise

    def go_on(self, reading: asyncio.Task[None]) -> None:
        """Waits for a task that continues without its client, with the time limit of a response."""
        self._tasks.add(reading)
        reading.add_done_callback(self._tasks.discard)
        timer = asyncio.get_running_loop().call_later(_LONGEST_S, reading.cancel)
        reading.add_done_callback(lambda _: timer.cancel())

    async def finish(self, limit_s: float) -> None:
        """Waits until all have ended; closes those that take longer."""
        tasks = set(self._tasks)
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=limit_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _leave(opening: asyncio.Task[Body]) -> None:
    """Closes a body once it is open; its source is then read to its end."""
    try:
        async with asyncio.timeout(_LONGEST_S):
            body = await opening
        await body.aclose()
    except LLMStreamError as error:
        _log.info("a call that went on without its client failed: %s", error)
    except TimeoutError:
        pass  # and the call was cancelled, which settles it


class Drained(Generic[_T]):
    """A source that is read to its end even if its reader closes it."""

    def __init__(self, source: Source[_T], account: Account) -> None:
        self._source = source
        self._account = account
        self._ready: deque[_T] = deque()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._left = False
        self._failure: BaseException | None = None
        self.task = asyncio.create_task(self._read())
        self.task.add_done_callback(lambda _: self._more.set())

    def __aiter__(self) -> Drained[_T]:
        return self

    async def __anext__(self) -> _T:
        while not self._ready:
            if self.task.done():
                if self.task.cancelled():
                    raise IncompleteStream("the gateway was stopped")
                if self._failure is not None:
                    raise self._failure
                raise StopAsyncIteration
            self._more.clear()
            await self._more.wait()
        self._room.set()
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Detaches the reader; the source is read to its end."""
        if self._left:
            return
        self._left = True
        if not self.task.done():
            self._account.left = True
            timer = asyncio.get_running_loop().call_later(_LONGEST_S, self.task.cancel)
            self.task.add_done_callback(lambda _: timer.cancel())
        self._ready.clear()
        self._room.set()

    async def _read(self) -> None:
        try:
            async for item in self._source:
                if self._left:
                    continue
                self._ready.append(item)
                self._more.set()
                if len(self._ready) >= _AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:
            self._failure = error
            if self._left:
                _log.info("a response that was read on without its client failed: %s", error)
        finally:
            with suppress(Exception):
                await self._source.aclose()
