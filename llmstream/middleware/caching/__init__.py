"""A cache of answers, by request; concurrent equal requests share one answer.

`form.py` defines which requests are equal, what is stored of an answer, and at which pace it is replayed;
`stores.py`, `sqlite.py` and `redis.py` are stores.

A `Flight` is a request in progress, with the events so far. A task of the request that started it fills it,
so that a slow reader delays no other. Between processes, a claim in the store marks the one that sends the
request; the others read the events that it publishes. If the answer fails, or its first reader closes it,
the other readers check again, and the first of them sends the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from llmstream.chats.content import OWN_KEY
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ResponseMetadata,
    RetryNotice,
    StreamStart,
    Usage,
    decode,
    encode,
)
from llmstream.middleware.caching.form import (
    Answer,
    Times,
    cache_key,
    decode_answer,
    encode_lines,
    play,
    speed_of,
)
from llmstream.middleware.caching.stores import LEASE_S, CacheStore, SharedStore, Storage, as_store
from llmstream.middleware.wrapping import Ask, Middleware, Reply
from llmstream.request import Request
from llmstream.transport.deadlines import Due, deadline_error

__all__ = [
    "Key",
    "Price",
    "Storage",
    "Times",
    "cache",
    "cache_key",
]


# Requests in progress.

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
        """The flight of an equal request, unless it has failed or landed."""
        flight = self._open.get(asyncio.get_running_loop(), {}).get(key)
        return None if flight is None or flight.failed or flight.landed.is_set() else flight

    def begin(self, key: str, ask: AskOnce, known: Known) -> Flight:
        """Starts a flight that equal requests share; `land` ends it.

        ask:   sends the request; returns whether the answer is stored by now
        """
        flight, flights = Flight(), self._open.setdefault(asyncio.get_running_loop(), {})
        before, flights[key] = flights.get(key), flight
        if self._shared is None:
            work = _fetch(flight, ask)
        else:
            last = None if before is None else before.task
            work = _claim(flight, key, self._shared, ask, known, last)
        flight.task = asyncio.create_task(work)
        return flight

    def begin_alone(self, ask: AskOnce) -> Flight:
        """Starts a flight that equal requests do not share."""
        flight = Flight()
        flight.task = asyncio.create_task(_fetch(flight, ask))
        return flight

    async def land(self, key: str, flight: Flight) -> None:
        """Ends a flight, because its reader has everything or closes it; waits for the cleanup."""
        flight.landed.set()
        try:
            if flight.task is not None:
                if not flight.ended:
                    flight.task.cancel()
                await asyncio.wait([flight.task])
        finally:
            flights = self._open.get(asyncio.get_running_loop(), {})
            if flights.get(key) is flight:
                del flights[key]


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


async def _claim(
    flight: Flight,
    key: str,
    store: SharedStore,
    ask: AskOnce,
    known: Known,
    last: asyncio.Task[None] | None,
) -> None:
    """Sends the request unless another process does, whose events are then read.

    last: the task of the flight before, which releases its claim at its end
    """
    owner = os.urandom(12).hex()
    publishing: asyncio.Task[None] | None = None
    try:
        if last is not None:
            await asyncio.wait([last])
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


# The cache.

# Finish reasons of complete answers.
_COMPLETE: Final = frozenset({"stop", "tool-calls", "other", "unknown"})

_NO_CONTENT: Final = (StreamStart, ResponseMetadata)

_LOST: Final = "an equal request, whose answer was shared, was left or failed"

Key: TypeAlias = Callable[[Request], Request | str | None]
"""Returns the parts of a request that identify it, as a request or a text; None if it is not to be cached."""

Price: TypeAlias = Callable[[str, Usage], float | None]
"""What tokens of "provider:model" cost in US dollars, such as `llmstream.prices.price`."""


def cache(
    storage: Storage,
    *,
    ttl_s: float | None = None,
    max_bytes: int | None = None,
    times: Times = "none",
    single: bool = True,
    key: Key | None = None,
    price: Price | None = None,
) -> Middleware:
    """Returns the answer to an earlier, equal request as a stream, without a request to the vendor.

    Only complete answers are stored: none that failed, was closed early, or was cut by a limit or a filter.
    Requests are equal if provider, address, key, headers, model, messages, tools and settings are, so tenants
    with their own keys share nothing; a key returned by a function is ignored. A `response-metadata` with
    {"llmstream": {"cached": true, "saved": {...}}} marks a replay, with the tokens and dollars that it saved.
    The option `refresh=True` of a call sends the request, and stores the new answer.

    Of concurrent equal requests only one is sent: the others read its events as they arrive ("live" in the
    mark), in all processes that share a folder, a file or a server. If it fails or is closed, the next one is
    sent, after a `retry` event if its reader has received content.

    storage:   a folder, with one file of JSON lines for each answer (mode 0600: answers may be private);
               "sqlite:cache.db"; "redis://HOST:PORT/DB" (also rediss:// and unix://; extra `redis`); or a
               mapping. Failures to read or write are logged, and the request is sent
    ttl_s:     how long an answer may be used; None for ever
    max_bytes: maximum size of all answers; the least recently used are removed first
    times:     the pace of a replay: "none" yields all at once, "original" as recorded, 2.0 twice as fast
    single:    whether concurrent equal requests share one answer
    key:       returns the parts of a request that identify it, such as the request without a date in its
               prompt
    price:     such as `llmstream.prices.price`, for the saved dollars
    raises:    InvalidRequest for an invalid argument; Unsupported without the extra of the store
    """
    for name, value in {"ttl_s": ttl_s, "max_bytes": max_bytes}.items():
        if value is not None and not value > 0:
            raise InvalidRequest(f"{name} must be positive or None, got {value!r}")
    store = as_store(storage, ttl_s=ttl_s, max_bytes=max_bytes)
    answers = _Answers(store, ttl_s, speed_of(times), single, price)

    async def cached(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        same = None if key is None else key(request)
        digest = None if key is not None and same is None else _digest(request, ask, same)
        events = ask(request) if digest is None else answers.of(digest, request, ask)
        async with aclosing(events):
            async for event in events:
                yield event

    cached.__name__ = "cache"
    return cached


def _digest(request: Request, ask: Ask, same: Request | str | None) -> str | None:
    try:
        return cache_key(ask.model, request, same)
    except (LLMStreamError, TypeError, ValueError, OverflowError) as error:
        _log.info("a request is not cached: %s", error)
        return None


class _Answers:
    """Finds stored answers, or requests new ones."""

    def __init__(
        self, store: CacheStore, ttl_s: float | None, speed: float | None, single: bool, price: Price | None
    ) -> None:
        self._store, self._ttl_s, self._speed = store, ttl_s, speed
        self._single, self._price = single, price
        self._flights = Flights(store)

    async def of(self, key: str, request: Request, ask: Ask) -> AsyncGenerator[Event]:
        """The events of the answer. Retries if another request, whose answer it reads, fails."""
        refresh = bool(ask.options.get("refresh"))
        mark = _Mark(f"{ask.model.provider.name}:{request.model}", self._price)
        got, attempt = list[Event](), 0
        while True:
            found = None if refresh else await self._found(key)
            # Events already read from another process may be the beginning of the stored answer.
            if got and (found is None or found.events[: len(got)] != got):
                attempt += 1
                if any(type(event) not in _NO_CONTENT for event in got):
                    yield RetryNotice(_LOST, discard_step=0, attempt=attempt, wait_s=0.0)
                got = []
            if found is not None:
                async with aclosing(_replay(found, self._speed, len(got), mark)) as replay:
                    async for event in replay:
                        yield event
                return
            flight, own = self._flight(key, lambda: ask(request), shared=self._single and not refresh)
            try:
                async with aclosing(flight.read(own=own, due=ask.due)) as events:
                    async for event in events:
                        if type(event) is Finish:
                            await self._keep(key, flight, event)
                        got.append(event)
                        for each in [event] if own and flight.asked else mark.live(event):
                            yield each
            finally:
                if own:
                    await self._flights.land(key, flight)
            if own and flight.error is not None:
                raise flight.error
            if not flight.failed or (own and flight.asked):
                return

    def _flight(self, key: str, ask: Callable[[], Reply], *, shared: bool) -> tuple[Flight, bool]:
        """The answer in progress, and whether this request started it."""
        if not shared:
            return self._flights.begin_alone(ask), True
        flight = self._flights.find(key)
        if flight is not None:
            return flight, False
        return self._flights.begin(key, ask, partial(self._has, key)), True

    async def _has(self, key: str) -> bool:
        return await self._found(key) is not None

    async def _found(self, key: str) -> Answer | None:
        """The stored answer; None if there is none that can be read, or it is too old."""
        try:
            data = await self._store.get(key)
            if data is None:
                return None
            answer = decode_answer(data)
        except Exception as error:  # the mapping is the caller's, and may raise anything
            _log.warning("the stored answer %s cannot be read, and the request is sent: %s", key, error)
            return None
        if self._ttl_s is not None and time.time() - (answer.stored or 0.0) > self._ttl_s:
            return None
        return answer

    async def _keep(self, key: str, flight: Flight, finish: Finish) -> None:
        """Stores a complete answer, once; before the finish, after which readers may close the stream."""
        async with flight.storing:  # continuing the reader would end the claim too early
            lines = flight.lines
            if lines is None or flight.stored or flight.failed or not flight.asked:
                return
            if finish.finish_reason in _COMPLETE:
                flight.stored = True
                try:
                    await self._store.put(key, encode_lines(lines, flight.timing, time.time()))
                except Exception as error:
                    _log.warning("an answer cannot be stored: %s", error)


async def _replay(answer: Answer, speed: float | None, after: int, mark: _Mark) -> AsyncGenerator[Event]:
    """The events of a stored answer, after those that the reader has."""
    finish = answer.events[-1]
    async with aclosing(play(answer, speed, after=after)) as events:
        async for event in events:
            yield event
            if type(event) is StreamStart and type(finish) is Finish:
                yield mark.saved(finish)


class _Mark:
    """Marks an answer that was not requested."""

    def __init__(self, model: str, price: Price | None) -> None:
        self._model, self._price = model, price

    def saved(self, finish: Finish) -> Event:
        """The mark of an answer that is known to its end."""
        usage = finish.usage
        counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        saved: dict[str, float] = {name: count for name, count in counts.items() if count is not None}
        dollars = self._price(self._model, usage) if self._price is not None else None
        if dollars is not None:
            saved["usd"] = dollars
        return _marked({"cached": True, "saved": saved})

    def live(self, event: Event) -> list[Event]:
        """An event of another request's answer, with the marks around it."""
        match event:
            case StreamStart():
                return [event, _marked({"cached": True, "live": True})]
            case Finish():
                return [self.saved(event), event]
            case _:
                return [event]


def _marked(facts: dict[str, Any]) -> Event:
    return ResponseMetadata(provider_metadata={OWN_KEY: facts})
