"""Things that live as long as their event loop: opened at first use, closed together with it.

Each is the one value of an open async generator. `asyncio.run` and its kin close such
generators last, and with them what they hold: no close call, no warning, no leak.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["LoopBound"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


_forks = 0
"""How many forks made this process: what tells it from its parent, without a system call for each request."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class _Held(Generic[T]):
    """One open thing, the generator that closes it, and the process it belongs to."""

    def __init__(self, thing: T, keeper: AsyncGenerator[T]) -> None:
        self.thing = thing
        self.keeper = keeper
        self.forks = _forks


class LoopBound(Generic[K, T]):
    """One thing for each key and loop; after a fork the child opens its own.

    open_thing: an async generator function that yields the thing once and closes it afterwards;
                no context manager made of one, whose own generator would be closed as well
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
        """The thing of this key in the running loop."""
        loop = asyncio.get_running_loop()
        held = self._find(loop, key)
        if held is not None:
            return held
        async with self._locks.setdefault(loop, asyncio.Lock()):
            held = self._find(loop, key)
            if held is not None:
                return held
            keeper = self._open(key)
            thing = await anext(keeper)
            self._held.setdefault(loop, {})[key] = _Held(thing, keeper)
            return thing

    async def drop(self, key: K) -> None:
        """Closes the running loop's thing of this key, if there is one; the next `get` opens another."""
        held = self._held.get(asyncio.get_running_loop(), {}).pop(key, None)
        if held is not None and held.forks == _forks:
            await held.keeper.aclose()

    def _find(self, loop: asyncio.AbstractEventLoop, key: K) -> T | None:
        held = self._held.get(loop, {}).get(key)
        if held is None or held.forks != _forks or not self._usable(held.thing):
            return None
        return held.thing
