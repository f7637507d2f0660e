"""Answers that were given before, for the same request."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Final

from llmstream.errors import LLMStreamError
from llmstream.events import Event, Finish, ResponseMetadata, decode, encode
from llmstream.grammar import check
from llmstream.middleware.asking import Ask, Middleware
from llmstream.middleware.cache_key import cache_key
from llmstream.middleware.cache_store import CacheStore, Kept, as_store
from llmstream.request import Request

__all__ = ["cache"]

_log = logging.getLogger("llmstream")

_WHOLE: Final = frozenset({"stop", "tool-calls", "other", "unknown"})
"""Finish reasons of answers that nothing cut short."""

_HEAD: Final = b'{"format":"llmstream.cache","version":1}'


def cache(kept: Kept) -> Middleware:
    """Gives the answer to a request that was answered before, as a stream, without asking.

    Kept are whole answers only: none that failed, was left, or was cut by a limit or a filter. A
    replay has all events of the answer, usage included, at once; a `response-metadata` with
    {"llmstream": {"cached": true}} says that it is one. Requests are the same if provider, address,
    key, headers, model, messages, tools and settings are, so tenants with keys of their own share
    nothing; a key that a function gives does not count. Nothing is ever removed. Requests that
    run side by side each ask, and the answer that ends last is kept.

    kept: a folder, with one file of JSON lines an answer (mode 0600: answers may be private), or a
          mapping. What cannot be read or written is logged, and the model is asked
    """
    store = as_store(kept)

    async def cached(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        key = _key(request, ask)
        found = await _found(store, key) if key else None
        if found is not None:
            for event in found:
                yield event
            return
        lines: list[bytes] | None = None if key is None else [_HEAD]
        finish: Finish | None = None  # given when it is clear whether an error follows
        try:
            async for event in ask(request):
                lines = _with(lines, event)
                if isinstance(event, Finish):
                    finish = event
                else:
                    yield event
        except LLMStreamError:
            if finish is not None:
                yield finish
            raise
        if key and lines and finish is not None and finish.finish_reason in _WHOLE:
            await _put(store, key, b"\n".join([*lines, b""]))
        if finish is not None:
            yield finish

    cached.__name__ = "cache"
    return cached


def _key(request: Request, ask: Ask) -> str | None:
    try:
        return cache_key(ask.model, request)
    except (LLMStreamError, TypeError, ValueError, OverflowError) as error:
        _log.info("a request is not cached: %s", error)
        return None


def _with(lines: list[bytes] | None, event: Event) -> list[bytes] | None:
    """The lines and one more; None once there is something that JSON cannot hold."""
    if lines is None:
        return None
    try:
        lines.append(encode(event))
    except (TypeError, ValueError, OverflowError) as error:
        _log.info("an answer is not kept: %s", error)
        return None
    return lines


async def _found(store: CacheStore, key: str) -> list[Event] | None:
    """The events of the kept answer, marked as a replay; None where there is none that can be read."""
    try:
        data = await store.get(key)
        if data is None:
            return None
        events = _events(data)
    except Exception as error:  # the mapping is the caller's, and may raise anything
        _log.warning("the kept answer %s cannot be read, and the model is asked: %s", key, error)
        return None
    mark = ResponseMetadata(provider_metadata={"llmstream": {"cached": True}})
    return [events[0], mark, *events[1:]]


def _events(data: bytes) -> list[Event]:
    head, *lines = data.rstrip(b"\n").split(b"\n")
    if head != _HEAD:
        raise ValueError("it is of another version or no answer at all")
    events = [decode(line) for line in lines]
    if broken := check(events):
        raise ValueError(broken[0])
    return events


async def _put(store: CacheStore, key: str, data: bytes) -> None:
    try:
        await store.put(key, data)
    except Exception as error:
        _log.warning("an answer cannot be kept: %s", error)
