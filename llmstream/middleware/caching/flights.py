"""Requests in progress: equal ones at the same time share one answer, and read its events as they arrive.

A `Flight` has the events so far. A task of the request that started it fills it, so that a slow reader delays
no other. Between processes, a claim in the store marks the one that sends the request; the others read the
events that it publishes. If the answer fails, or its first reader closes it, the other readers check again,
and the first of them sends the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

from llmstream.events import ErrorEvent, Event, Finish, decode, encode
from llmstream.middleware.caching.stores import LEASE_S, CacheStore, SharedStore
from llmstream.middleware.wrapping import Reply
from llmstream.transport.deadlines import Due, deadline_error

__all__ = ["Flight", "Flights"]

T = TypeVar("T")

AskOnce: TypeAlias = Callable[[], Reply]
Known: TypeAlias = Callable[[], Awaitable[bool]]

_log = logging.getLogger("llmstream")

# Interval at which events are published and polled: the delay of a reader in another process.
_POLL_S: Final = 0.02

# Two of three renewals may fail.
_RENEW_S: Final = LEASE_S / 3


class Flight:
    """One answer in progress, and its state.

    events: so far; the first reader's own, so the others get copies
    lines:  the events as JSON, encoded before a reader can change them; None if JSON cannot hold one
    timing: seconds since the request, and events that arrived then
    asked:  whether this process sent the request, not another one
    ended:  no event follows
    failed: the answer is incomplete, and its readers must check again
    error:  of the request
    task:   fills it
    landed: set when the reader that started it has everything, or has closed it
    stored: the answer is stored, or was tried to be; `storing` is held meanwhile
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[bytes] | None = []
        self.timing: list[tuple[float, int]] = []
        self.asked = self.ended = self.failed = self.stored = False
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None
        self.landed = asyncio.Event()
        self.storing = asyncio.Lock()
        self._changed = asyncio.Event()

    def add(self, events: list[Event], at_s: float) -> None:
        """Adds events that have arrived together."""
        if not events:
            return
        self.events += events
        self.timing.append((at_s, len(events)))
        try:
            if self.lines is not None:
                self.lines += [encode(event) for event in events]
        except (TypeError, ValueError, OverflowError) as error:
            _log.info("an answer is not stored: %s", error)
            self.lines = None
        self.failed = self.failed or any(type(event) is ErrorEvent for event in events)
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """Ends the flight; without a finish it has failed. Idempotent."""
        if not self.ended:
            self.ended, self.error = True, error
            if error is not None or not self.events or type(self.events[-1]) is not Finish:
                self.failed = True
            self._wake()

    async def changed(self) -> None:
        """Waits for events or the end."""
        await self._changed.wait()

    def _wake(self) -> None:
        # A new event object each time: waiting readers reference the old one, so none misses the signal.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, *, own: bool, due: Due | None) -> AsyncGenerator[Event]:
        """Yields the events as they arrive; readers of other requests get none after a failure.

        due:    when the reader's total deadline passes; the requesting reader's call enforces its own
        raises: DeadlineExceeded
        """
        seen = 0
        while True:
            while seen < len(self.events):
                event = self.events[seen]
                if not own and (type(event) is ErrorEvent or (self.failed and type(event) is Finish)):
                    return
                seen += 1
                yield event if own or self.lines is None else decode(self.lines[seen - 1])
            if self.ended:
                return
            await self._wait(None if own and self.asked else due)

    async def _wait(self, due: Due | None) -> None:
        try:
            async with asyncio.timeout_at(due[0] if due else None):
                await self._changed.wait()
        except TimeoutError:
            assert due is not None
            raise deadline_error(due[1], due[2]) from None


class Flights:
    """The requests of this process in progress, by loop and key, and its claims in the store."""

    def __init__(self, store: CacheStore) -> None:
        self._shared = store if isinstance(store, SharedStore) else None
        # By loop: an event of asyncio belongs to one. Weak keys, so that the flights of a closed loop are
        # freed.
        self._open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Flight]] = (
            weakref.WeakKeyDictionary()
        )

    def find(self, key: str) -> Flight | None:
        """The flight of an equal request, unless it has failed."""
        flight = self._open.get(asyncio.get_running_loop(), {}).get(key)
        return None if flight is None or flight.failed else flight

    def begin(self, key: str, ask: AskOnce, known: Known) -> Flight:
        """Starts a flight that equal requests share; `land` ends it.

        ask:   sends the request; returns whether the answer is stored by now
        """
        flight = Flight()
        self._open.setdefault(asyncio.get_running_loop(), {})[key] = flight
        work = _fetch(flight, ask) if self._shared is None else _claim(flight, key, self._shared, ask, known)
        flight.task = asyncio.create_task(work)
        return flight

    def begin_alone(self, ask: AskOnce) -> Flight:
        """Starts a flight that equal requests do not share."""
        flight = Flight()
        flight.task = asyncio.create_task(_fetch(flight, ask))
        return flight

    async def land(self, key: str, flight: Flight) -> None:
        """Ends a flight, because its reader has everything or closes it; waits for the cleanup."""
        flights = self._open.get(asyncio.get_running_loop(), {})
        if flights.get(key) is flight:
            del flights[key]
        flight.landed.set()
        if flight.task is not None:
            if not flight.ended:
                flight.task.cancel()
            await asyncio.wait([flight.task])


async def _fetch(flight: Flight, ask: AskOnce) -> None:
    """Sends the request, and adds the events that arrive."""
    flight.asked = True
    clock = asyncio.get_running_loop().time
    began, finish = clock(), list[Event]()
    try:
        reply = ask()
        while batch := await reply.batch():
            content = batch
            if type(batch[-1]) is Finish:  # yielded once it is clear whether an error follows
                content, finish = batch[:-1], batch[-1:]
            flight.add(content, clock() - began)
        flight.add(finish, clock() - began)
        flight.end()
    except Exception as error:  # raised in the reader that sent the request
        flight.failed = True
        flight.add(finish, clock() - began)
        flight.end(error)
    finally:
        flight.end()


async def _claim(flight: Flight, key: str, store: SharedStore, ask: AskOnce, known: Known) -> None:
    """Sends the request unless another process does, whose events are then read."""
    owner = os.urandom(12).hex()
    publishing: asyncio.Task[None] | None = None
    try:
        # An unreachable store must not prevent requests.
        if not await _succeeds("claimed", store.claim(key, owner), default=True):
            await _follow(flight, key, store)
            return
        if await known():  # since the first check
            return
        publishing = asyncio.create_task(_publish(flight, key, owner, store))
        await _fetch(flight, ask)
        await publishing
        if not flight.failed:
            await flight.landed.wait()  # the answer is stored now, or will not be
    finally:
        flight.end()
        if publishing is not None:
            publishing.cancel()
        await _succeeds("released", store.release(key, owner), default=None)


async def _publish(flight: Flight, key: str, owner: str, store: SharedStore) -> None:
    """Publishes the events to other processes as they arrive, and renews the claim."""
    shown, ended = 0, False
    while not ended and flight.lines is not None:
        ended = flight.ended
        lines = flight.lines[shown:]
        shown += len(lines)
        if not await _succeeds("published", store.publish(key, owner, lines), default=False):
            return
        if shown == len(flight.lines) and not flight.ended:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(flight.changed(), _RENEW_S)
            with contextlib.suppress(TimeoutError):  # more may arrive
                await asyncio.wait_for(flight.landed.wait(), _POLL_S)
            if flight.stored and flight.landed.is_set():
                return  # the others read it from the store


async def _follow(flight: Flight, key: str, store: SharedStore) -> None:
    """Reads the events that another process publishes, until its finish, or until its claim ends."""
    clock = asyncio.get_running_loop().time
    began, owner, place = clock(), "", 0
    try:
        while (found := await store.watch(key, place)) is not None:
            if found.owner != (owner := owner or found.owner):
                return  # another process has claimed the request, with a different answer
            place = found.place
            events = [decode(line) for line in found.lines]
            if any(type(event) is ErrorEvent for event in events):
                flight.failed = True
            if not flight.failed:
                flight.add(events, clock() - began)
            if events and type(events[-1]) is Finish and not flight.failed:
                flight.end()
                return
            await asyncio.sleep(_POLL_S)
    except Exception as error:
        _log.warning("an answer that another process reads cannot be followed: %s", error)
    if not place:
        await asyncio.sleep(_POLL_S)  # the claim is changing owners


async def _succeeds(what: str, work: Awaitable[T], *, default: T) -> T:
    """The result of the store; its failures do not fail the answer."""
    try:
        return await work
    except Exception as error:
        _log.warning("a request cannot be %s in the cache: %s", what, error)
        return default
