"""The list behind a chat, and the tasks that wait for it to change."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import NamedTuple

from llmstream.chats.message import Message

__all__ = ["History", "Look"]


class Look(NamedTuple):
    """One consistent view of a history.

    length:  how many messages there are
    version: grows with every change; what `changed_since` takes
    epoch:   grows with every swap
    message: the one asked for, or None where there is none
    """

    length: int
    version: int
    epoch: int
    message: Message | None


class History:
    """Messages that many tasks and threads share; no message in it is ever altered.

    Nothing here is bound to an event loop: a parked task is woken through the loop it runs in.
    The lock is held for list operations only, never while foreign code runs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._messages: list[Message] = []
        self._version = 0
        self._epoch = 0
        self._parked: set[asyncio.Future[None]] = set()

    def extend(self, messages: list[Message]) -> None:
        """Add messages at the end, all at once, and wake who waits."""
        with self._lock:
            self._messages.extend(messages)
            parked = self._change()
        _wake(parked)

    def swap(self, messages: list[Message]) -> None:
        """Exchange everything at once, begin a new epoch and wake who waits."""
        with self._lock:
            self._messages = list(messages)
            self._epoch += 1
            parked = self._change()
        _wake(parked)

    def snapshot(self, start: int = 0) -> list[Message]:
        """The messages of this moment from `start` (0 or more) on, in a list of the caller's."""
        with self._lock:
            return self._messages[start:]

    def last(self) -> Message | None:
        """The message at the end, or None."""
        with self._lock:
            return self._messages[-1] if self._messages else None

    def look(self, index: int = -1) -> Look:
        """Counters, and the message at `index`, read in one moment. A negative index finds none."""
        with self._lock:
            length = len(self._messages)
            message = self._messages[index] if 0 <= index < length else None
            return Look(length, self._version, self._epoch, message)

    async def changed_since(self, version: int) -> None:
        """Return once the version is another than this one; at once where it already is."""
        with self._lock:
            if self._version != version:
                return
            waiter = asyncio.get_running_loop().create_future()
            self._parked.add(waiter)
        try:
            await waiter
        finally:
            with self._lock:
                self._parked.discard(waiter)

    @property
    def parked(self) -> int:
        """How many tasks wait for a change."""
        with self._lock:
            return len(self._parked)

    def _change(self) -> set[asyncio.Future[None]]:
        self._version += 1
        parked, self._parked = self._parked, set()
        return parked


def _wake(waiters: set[asyncio.Future[None]]) -> None:
    if not waiters:
        return
    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:  # this thread runs no loop
        here = None
    for waiter in waiters:
        loop = waiter.get_loop()
        if loop is here:
            _release(waiter)
            continue
        with suppress(RuntimeError):  # raised where that loop is closed, and its tasks gone with it
            loop.call_soon_threadsafe(_release, waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
