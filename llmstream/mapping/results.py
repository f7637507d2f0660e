"""The results between the tasks that make them and their reader: in order if asked, never too many."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Results"]

R = TypeVar("R")


class Results(Generic[R]):
    """Results of numbered items.

    ordered: they are taken by number; else as they come
    ahead:   how many items may be entered and not taken yet
    """

    def __init__(self, *, ordered: bool, ahead: int) -> None:
        self._ordered = ordered
        self._ahead = ahead
        self._open = 0  # entered and not taken
        self._next = 0
        self._held: dict[int, R | None] = {}
        self._ready: deque[R] = deque()
        self._ended = False
        self._change: asyncio.Future[None] | None = None  # what the reader waits for
        self._room: asyncio.Future[None] | None = None  # what the feeder waits for

    async def enter(self) -> None:
        """Waits until there is room for one more item."""
        while self._open >= self._ahead:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        self._open += 1

    def put(self, number: int, result: R | None) -> None:
        """Adds the result of an entered item; None if the reader is not to see it."""
        if not self._ordered:
            self._add(result)
        else:
            self._held[number] = result
            while self._next in self._held:
                self._add(self._held.pop(self._next))
                self._next += 1

    def _add(self, result: R | None) -> None:
        if result is None:
            self._left()
        else:
            self._ready.append(result)
            _set(self._change)

    def _left(self) -> None:
        self._open -= 1
        _set(self._room)

    def end(self) -> None:
        """There will be no more. Results behind a gap are given in their order."""
        self._ended = True
        for number in sorted(self._held):
            self._add(self._held.pop(number))
        _set(self._change)

    async def take(self) -> R | None:
        """Waits for the next result; None at the end."""
        while not self._ready:
            if self._ended:
                return None
            self._change = asyncio.get_running_loop().create_future()
            await self._change
        self._left()
        return self._ready.popleft()


def _set(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
