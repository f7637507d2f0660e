"""Limits that several processes share, in a Redis server or an SQLite file.

`rules.py` defines the changes of the shared state, `sqlite.py` and `redis.py` store it, and `member.py` is
the client of one event loop. Only a limiter with `shared` imports this package.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from llmstream.addresses import is_redis, shown, sqlite_path
from llmstream.errors import InvalidRequest
from llmstream.transport.fleet.member import LimitStore, Member, OnLoss
from llmstream.transport.pacing import Cost, Grant, RateState, Sizes

__all__ = ["Fleet", "LimitStore", "Member", "OnLoss", "store_at"]


def store_at(address: str, name: str) -> Callable[[], LimitStore]:
    """Returns a function that opens a store.

    address: "redis://...", "rediss://...", "unix://..." or "sqlite:PATH"
    raises:  InvalidRequest for any other; Unsupported without the extra `redis`
    """
    if path := sqlite_path(address):
        from llmstream.transport.fleet.sqlite import SQLiteLimits

        return partial(SQLiteLimits, path, name)
    if is_redis(address):
        from llmstream.transport.fleet.redis import RedisLimits, check_installed

        check_installed()
        return partial(RedisLimits, address, name)
    raise InvalidRequest(
        f"shared={shown(address)!r} is not an address of shared limits. Write redis://HOST:PORT/0, "
        "rediss://..., unix:///PATH or sqlite:PATH (no slashes before the path)."
    )


class Fleet:
    """The shared limits of one name in one process: a member for each of its event loops."""

    def __init__(self, address: str, name: str, sizes: Sizes, *, on_loss: OnLoss, lease_s: float) -> None:
        if on_loss not in ("local", "raise"):
            raise InvalidRequest(f'on_loss is "local" or "raise", got {on_loss!r}')
        if not name or not name.isprintable() or set(name) & set("{} "):
            raise InvalidRequest(f"name must be a word without braces, such as openai-main, got {name!r}")
        if not lease_s > 0:
            raise InvalidRequest(f"lease_s must be above 0, got {lease_s!r}")
        self._make = partial(Member, store_at(address, name), sizes, on_loss=on_loss, lease_s=lease_s)
        self._members = dict[asyncio.AbstractEventLoop, Member]()
        self._lock = threading.Lock()
        # At exit the loops have ended, so their members cannot disconnect any more.
        weakref.finalize(self, _disconnect_all, self._members).atexit = False

    @property
    def members(self) -> list[Member]:
        """The levels of the buckets, as known in this process."""
        with self._lock:
            return list(self._members.values())

    @property
    def under_way(self) -> int:
        """The number of unreleased permits in this process."""
        return sum(member.under_way for member in self.members)

    @property
    def waiting(self) -> int:
        """The number of waiting requests in this process."""
        return sum(member.waiting for member in self.members)

    async def acquire(self, cost: Cost, priority: int) -> Grant:
        """Waits for a permit; a cancelled waiter returns what it was granted."""
        return await self._here().acquire(cost, priority)

    def _here(self) -> Member:
        loop = asyncio.get_running_loop()
        with self._lock:
            # Each `asyncio.run` creates its own loop.
            for closed in [other for other in self._members if other.is_closed()]:
                del self._members[closed]
            member = self._members.get(loop)
            if member is None:
                self._members[loop] = member = self._make()
            return member

    def give_back(self, grant: Grant, extra: Sequence[float]) -> None:
        """Frees the permit of a response; `extra` is its cost beyond the estimate."""
        grant.by.give_back(grant, extra)

    def learn(self, states: Mapping[str, RateState], grant: Grant | None) -> None:
        """Lowers the buckets to the remaining allowances that the vendor reports."""
        self._any().learn(states, grant)

    def pause(self, seconds: float) -> None:
        """Pauses the requests of all processes for this time, at most a minute."""
        self._any().pause(seconds)

    def refused(self, grant: Grant | None, used_up: int) -> None:
        """Reduces all bucket sizes after a 429, unless an empty bucket explains it."""
        self._any().refused(grant, used_up)

    def _any(self) -> Member:
        try:
            return self._here()
        except RuntimeError:  # called from a thread without a loop
            if members := self.members:
                return members[0]
            raise InvalidRequest(
                "a shared limiter works in an event loop: call this after a request, or in a coroutine"
            ) from None

    async def aclose(self) -> None:
        """Disconnects the current loop's member at once, others soon."""
        loop = asyncio.get_running_loop()
        for member in self.members:
            member.close_soon()
        with self._lock:
            own = self._members.get(loop)
        if own is not None:
            await own.aclose()


def _disconnect_all(members: dict[asyncio.AbstractEventLoop, Member]) -> None:
    for member in list(members.values()):
        member.close_soon()
