"""Answers as they are stored, under which key: all their events, and when each of them arrived.

    {"format":"llmstream.cache","version":2,"stored":1790000000.0,"timing":[[0.21,2],[0.25,1],[0.3,1]]}
    {"type":"stream-start"}
    {"type":"text-start","id":"0"}
    ...

`timing` has a pair for each batch of events: seconds since the request, and the number of events that arrived
then. Version 1 has neither times nor timing, and is read as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.chats.message import Message
from llmstream.chats.saved import message_to_json
from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError
from llmstream.events import Event, decode, encode
from llmstream.first_use import prepared
from llmstream.grammar import check
from llmstream.request import Request
from llmstream.streams.call import unmarked
from llmstream.streams.model import Model

__all__ = [
    "FORMAT",
    "Answer",
    "Times",
    "Timing",
    "asked_for",
    "cache_key",
    "decode_answer",
    "encode_answer",
    "encode_lines",
    "play",
    "speed_of",
]

FORMAT: Final = "llmstream.cache"
_VERSION: Final = 2

Timing: TypeAlias = Sequence[tuple[float, int]]
"""Pairs of seconds since the request, and the number of events that arrived then."""

Times: TypeAlias = Literal["none", "original"] | float
"""At which pace a stored answer is replayed: at once, as it was recorded, or so many times faster."""


class _Head(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    stored: float | None = None
    timing: list[tuple[float, int]] = []


class Answer(msgspec.Struct, frozen=True):
    """A complete answer.

    stored: Unix time; None if it is not known, as in version 1
    timing: of its events; events it does not cover arrive with the last batch
    """

    events: list[Event]
    timing: Timing = ()
    stored: float | None = None

    @property
    def batches(self) -> Iterable[tuple[float, list[Event]]]:
        """The events that arrived together, with the seconds since the request."""
        at, start = 0.0, 0
        for seconds, count in self.timing:
            at = max(at, seconds)
            yield at, self.events[start : start + count]
            start += count
        if start < len(self.events):
            yield at, self.events[start:]


def encode_answer(answer: Answer) -> bytes:
    """The stored form.

    raises: TypeError, ValueError, OverflowError for values that JSON cannot hold
    """
    return encode_lines([encode(event) for event in answer.events], answer.timing, answer.stored)


def encode_lines(lines: Iterable[bytes], timing: Timing, stored: float | None) -> bytes:
    """The stored form of already encoded events."""
    # Microseconds are enough for a replay, and shorter than all digits of a float.
    head = msgspec.json.encode(_Head(FORMAT, _VERSION, stored, [(round(at, 6), n) for at, n in timing]))
    return b"\n".join([head, *lines, b""])


def decode_answer(data: bytes) -> Answer:
    """Reads the stored form, of any version.

    raises: ValueError, as msgspec's errors are, if it is damaged, truncated or of a newer version
    """
    first, *lines = data.rstrip(b"\n").split(b"\n")
    head = msgspec.json.decode(first, type=prepared(_Head))
    if head.format != FORMAT or head.version not in (1, _VERSION):
        raise ValueError(
            f"it is not a stored answer, or a newer version wrote it ({head.format!r}, {head.version}; "
            f"known: {_VERSION})"
        )
    try:
        events = [decode(line) for line in lines]
    except DecodeError as error:
        raise ValueError(str(error)) from None
    # A truncated file may end between two lines, each of them valid.
    if broken := check(events):
        raise ValueError(broken[0])
    return Answer(events, head.timing, head.stored)


def speed_of(times: Times) -> float | None:
    """How many times faster than recorded; None for at once.

    raises: InvalidRequest
    """
    match times:
        case "none":
            return None
        case "original":
            return 1.0
        # A bool is an int: `True` would be a pace of 1.
        case bool() | str():
            pass
        case int() | float() if 0 < times < float("inf"):
            return float(times)
    raise InvalidRequest(f'times must be "none", "original" or a positive number, got {times!r}')


async def play(answer: Answer, speed: float | None, *, after: int = 0) -> AsyncGenerator[Event]:
    """Yields the events when they are due, except the first ones, which the reader already has.

    speed: factor relative to the recorded pace; None does not wait
    """
    if speed is None:
        for event in itertools.islice(answer.events, after, None):
            yield event
        return
    loop = asyncio.get_running_loop()
    began, position = loop.time(), 0
    for at, events in answer.batches:
        wait_s = began + at / speed - loop.time()
        if position + len(events) > after and wait_s > 0:
            await asyncio.sleep(wait_s)
        for event in events:
            position += 1
            if position > after:
                yield event


# The identity of a request: a digest of its content, its target and its account.


# Incremented whenever the same request gets a different key.
_KEY_VERSION = 2


def cache_key(model: Model, request: Request, same: Request | str | None = None) -> str:
    """A SHA-256, as hexadecimal digits, of provider, address, account, model and the complete request.

    The account is the API key, all headers, and the environment variables that set headers or select the
    billing account: vendors store state by account, and another key may belong to another user. Only their
    digest is used. A key returned by a function is ignored, because it changes for the same account.

    same:   replaces the request's content, for a caller who knows what to ignore
    raises: InvalidRequest for messages, and TypeError for options, that JSON cannot represent
    """
    asked = same if isinstance(same, str) else asked_for(same or request)
    whom = [_KEY_VERSION, model.provider.name, _address(model, request), _account(model, request)]
    # Sorted: the same options in another order are the same request.
    return hashlib.sha256(msgspec.json.encode([*whom, asked], order="deterministic")).hexdigest()


def asked_for(request: Request) -> dict[str, Any]:
    """The content of a request as JSON values, without headers.

    raises: as `cache_key`
    """
    asked: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(request, name))
        for name in Request.__struct_fields__
        if name not in ("messages", "headers")
    }
    asked["messages"] = [_content_only(message) for message in request.messages]
    return asked


def _content_only(message: Message) -> Any:
    """The message without the ids of its response: a repeated request gets different ones."""
    bare = msgspec.structs.replace(message, metadata=unmarked(message.metadata))
    return msgspec.json.decode(message_to_json(bare))


def _address(model: Model, request: Request) -> str:
    """Where the request goes, with region and project, as far as that is known before it is sent."""
    provider = model.provider
    address = model.base_url or ""
    try:
        address = provider.address(model.base_url)
        asked = Request(
            model=request.model, messages=(Message.user("."),), provider_options=request.provider_options
        )  # hashed, because the file name must not contain the conversation
        http = provider.dialect.encode(asked, provider=provider.name).http
        return provider.route(address, http, request.model, os.environ).url
    except LLMStreamError:
        return address  # the call itself reports the error


def _account(model: Model, request: Request) -> dict[str, Any]:
    """Identifies the billing account."""
    provider, key = model.provider, model._api_key
    headers = {name: os.environ.get(variable) for name, variable in provider.header_env.items()}
    headers |= {name.lower(): value for name, value in {**model._headers, **request.headers}.items()}
    if key is None:
        # The key that the call itself would use.
        key = next((found for name in provider.key_env if (found := os.environ.get(name))), None)
    variables = {name: os.environ.get(name) for name in provider.account_env}
    return {"key": key if isinstance(key, str) else None, "headers": headers, "variables": variables}
