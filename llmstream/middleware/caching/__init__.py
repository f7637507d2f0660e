"""A cache of answers, by request.

`form.py` defines which requests are equal, what is stored of an answer, and at which pace it is replayed;
`stores.py`, `sqlite.py` and `redis.py` are stores. `flights.py` lets concurrent equal requests share one
answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeAlias

from llmstream.chats.content import OWN_KEY
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.events import Event, Finish, ResponseMetadata, RetryNotice, StreamStart, Usage
from llmstream.middleware.caching.flights import Flight, Flights
from llmstream.middleware.caching.form import (
    Answer,
    Times,
    cache_key,
    decode_answer,
    encode_lines,
    play,
    speed_of,
)
from llmstream.middleware.caching.stores import CacheStore, Storage, as_store
from llmstream.middleware.wrapping import Ask, Middleware, Reply
from llmstream.request import Request

__all__ = ["Key", "Price", "Storage", "Times", "cache", "cache_key"]

_log = logging.getLogger("llmstream")

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
