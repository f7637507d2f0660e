"""A call of a model, as a stream reads it, and data about its response."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import msgspec

from llmstream.chats.content import OWN_KEY, Part, own_values
from llmstream.chats.message import Message
from llmstream.dialects.base import Position
from llmstream.dialects.errors import request_id
from llmstream.errors import LLMStreamError
from llmstream.events import Event, Usage

if TYPE_CHECKING:
    from llmstream.accumulate.accumulator import Accumulator
    from llmstream.providers.base import Provider
    from llmstream.request import Request
    from llmstream.streams.options import Options
    from llmstream.transport.deadlines import Deadlines


__all__ = [
    "Call",
    "CallingModel",
    "ResponseInfo",
    "ResumeToken",
    "mark_message",
    "response_info",
    "unmarked",
]

# Response fields stored in the message as flat strings: nested objects there belong to the vendors.
_MARKS: Final = ("provider", "model", "id", "request_id")

_RETRY_HEADERS: Final = ("retry-after", "retry-after-ms")


class ResumeToken(msgspec.Struct, frozen=True):
    """A position in an answer that its vendor stores, for `Model.reattach` in any process.

    Plain data: `msgspec.json.encode` writes it, `msgspec.json.decode(..., type=ResumeToken)` reads it.
    It contains no key, and is useless without the key that requested the answer.

    sequence_number: of the last vendor event that was read completely; -1 for none
    """

    provider: str
    model: str
    response_id: str
    sequence_number: int = -1


class Call(Protocol):
    """Reads one response. Implemented by `HTTPCall`, by middleware and by scripted models.

    error:   the error to raise at the end of iteration, or None
    earlier: the value of `position` before the last batch
    """

    error: LLMStreamError | None
    earlier: Position | None

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the last response, names in lower case."""

    @property
    def answered_by(self) -> str | None:
        """ "provider:model" if a model other than the called one responds; else None."""

    @property
    def position(self) -> Position | None:
        """The position after the last batch, if the vendor stores the response; else None."""

    async def next(self) -> list[Event]:
        """Waits for the next events and returns at least one; [] at the end."""

    def close(self) -> None:
        """Disconnects at once: closes the socket and ends a pending read."""

    async def aclose(self) -> None:
        """Closes as `close` does, and waits for cleanup."""

    async def steer(self, content: Sequence[Part]) -> None:
        """Sends input to the model while it responds.

        raises: Unsupported if the transport cannot do that
        """


@runtime_checkable
class CallingModel(Protocol):
    """The part of `Model` that a stream needs; `model.py` imports streams, so they cannot import it."""

    name: str
    provider: Provider
    options: Options
    deadlines: Deadlines

    def call(self, request: Request, options: Options | None = None, *, started: float | None = None) -> Call:
        """Creates a call; nothing is sent yet."""

    def reattached_call(
        self,
        token: ResumeToken,
        request: Request,
        options: Options | None = None,
        *,
        from_start: bool = False,
        started: float | None = None,
    ) -> Call:
        """Creates a call that reads a stored answer."""

    async def load(self) -> None:
        """Imports the modules that its calls need, off the event loop."""

    async def cancel(self, token: ResumeToken) -> None:
        """Cancels an answer that the vendor stores."""

    def other(self, spec: str) -> CallingModel:
        """Another model, by its spec."""


class ResponseInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Data about one response; None for what the vendor has not reported, or not yet.

    provider:   the one that responded; after a fallback not the requested one
    model:      the requested model: prices are keyed by "provider:model"
    model_id:   the vendor's name for it, often with a date
    id:         of the response
    request_id: of the HTTP exchange, for the vendor's support
    timestamp:  when the vendor created the response
    headers:    about rate limits, names in lower case
    """

    provider: str
    model: str
    id: str | None = None
    model_id: str | None = None
    request_id: str | None = None
    timestamp: datetime.datetime | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def response_info(responding: str, fold: Accumulator, call: Call | None) -> ResponseInfo:
    """Collects what is known about a response.

    responding: "provider:model"
    fold:       has accumulated the events so far
    call:       None before the response is requested
    """
    provider, _, model = responding.partition(":")
    return ResponseInfo(
        provider=provider,
        model=model,
        id=fold.response_id,
        model_id=fold.model_id,
        request_id=_exchange_id(call),
        timestamp=fold.timestamp,
        headers={} if call is None else _rate_headers(call.headers),
    )


def _exchange_id(call: Call | None) -> str | None:
    """The vendor's id of the HTTP exchange; that of an error in the stream takes precedence."""
    if call is None:
        return None
    failed = None if call.error is None else call.error.request_id
    return failed or request_id(call.headers)


def _rate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers about rate limits and waits; no other header of a response is stored."""
    return {
        name: value
        for name, value in headers.items()
        if "ratelimit" in name or "rate-limit" in name or name in _RETRY_HEADERS
    }


def mark_message(message: Message, responding: str, fold: Accumulator, call: Call | None) -> None:
    """Stores provider, model and ids in the message's metadata, under "llmstream"; see `response_info`."""
    provider, _, model = responding.partition(":")
    marks = {**own_values(message.metadata), "provider": provider, "model": model}
    if fold.response_id is not None:
        marks["id"] = fold.response_id
    if (exchange_id := _exchange_id(call)) is not None:
        marks["request_id"] = exchange_id
    message.set_meta(OWN_KEY, marks)


def unmarked(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata without the fields of `mark_message`, to compare conversations regardless of ids."""
    own = (metadata or {}).get(OWN_KEY)
    if metadata is None or not isinstance(own, dict):
        return metadata
    rest = {name: value for name, value in own.items() if name not in _MARKS}
    others = {name: value for name, value in metadata.items() if name != OWN_KEY}
    return ({**others, OWN_KEY: rest} if rest else others) or None
