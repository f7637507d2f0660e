"""What a dialect is: the shape of an API on the wire, in both directions and without I/O.

Forwards, it turns a `Request` into an HTTP request and the bytes of the answer into events.
In reverse, it reads a `Request` from an HTTP request and writes events as bytes: the
simulator, the gateway and the round-trip tests are made of that half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

import msgspec

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.errors import LLMStreamError
from llmstream.events import Event, Finish, Metadata, Usage, Warning
from llmstream.exchange import HttpRequest, Talk
from llmstream.request import Request

__all__ = [
    "ChoosesUrls",
    "ContinuesAnswers",
    "ContinuingDecoder",
    "Decoder",
    "Dialect",
    "Encoded",
    "FollowingDecoder",
    "KeepsAnswers",
    "KnowsOutput",
    "OutputAbility",
    "Place",
    "Position",
    "StreamLimits",
    "TakesPrefix",
    "TalksOverSockets",
    "continues_answers",
    "goes_on",
    "keeps_answers",
    "output_abilities",
    "takes_more",
    "takes_prefix",
    "takes_url",
    "talks_over_sockets",
]


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Caps on what one response may hold; past one, the stream ends in `LimitExceeded`.

    max_event_bytes:      one line, frame or event of the wire
    max_tool_input_bytes: the joined input of one tool call
    max_blocks:           blocks and calls of one response
    max_held_bytes:       what a decoder keeps of a response while it comes, in memory: inputs of open calls,
                          recordings, citations, log probabilities of a block, addresses of sources
    """

    max_event_bytes: int = 16 * 1024 * 1024
    max_tool_input_bytes: int = 16 * 1024 * 1024
    max_blocks: int = 10_000
    max_held_bytes: int = 32 * 1024 * 1024


class Encoded(msgspec.Struct, frozen=True):
    """An HTTP request (its URL relative to the provider's address) and what was left out of it."""

    http: HttpRequest
    warnings: list[Warning] = msgspec.field(default_factory=list)


class Decoder(Protocol):
    """One response body: bytes in, events out.

    A decoder emits neither `stream-start` (the guard does) nor the error and finish of a
    stream that broke off. It emits `finish` once, when it knows that nothing more will come.

    complete: the vendor has said that the answer is complete (trailers may follow)
    done:     nothing more is wanted from the body: finish was emitted, or `failure` is set
    failure:  why the stream cannot go on, such as an error the vendor sent inside it
    """

    complete: bool
    done: bool
    failure: LLMStreamError | None

    @property
    def usage(self) -> Usage:
        """Tokens as far as the vendor said; some decoders add them up when asked."""
        ...

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that any slice of the body completes."""
        ...

    def close(self) -> list[Event]:
        """The body is over: what was held back, and finish if the answer is complete."""
        ...


class Dialect(Protocol):
    """The shape of an API. `provider` names who is spoken to: in errors and as metadata key."""

    @property
    def name(self) -> str:
        """As in `llmstream replay --dialect`, for example "openai-chat"."""
        ...

    @property
    def content_type(self) -> str:
        """Media type of a streamed answer, for example "text/event-stream"."""
        ...

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """The HTTP request, without address and key.

        raises: InvalidRequest, Unsupported
        """
        ...

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> Decoder:
        """A decoder for one response body."""
        ...

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """The typed error of an answer that is no stream; header names are lower case."""
        ...


@runtime_checkable
class ChoosesUrls(Protocol):
    """What a dialect may have besides: a word on which URLs its vendor fetches itself."""

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the vendor takes the part by its URL; where it does not, it gets the bytes.

        True too where the bytes would be refused or left out just the same.
        """
        ...


def takes_url(dialect: Dialect, part: Image | Audio | Document | File) -> bool:
    """Whether a part may stay a URL: yes, unless the dialect says no."""
    return dialect.accepts_url(part) if isinstance(dialect, ChoosesUrls) else True


OutputAbility: TypeAlias = Literal["json_schema", "tool", "json_object"]
"""How a model can be held to JSON: to a schema, by a call it has to make, or to JSON of any shape."""


@runtime_checkable
class KnowsOutput(Protocol):
    """The optional part of a dialect: how typed answers are asked for, where not all ways are open."""

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """What the model that is asked can be held to in this request, best first; () is nothing."""
        ...


def output_abilities(dialect: Dialect, request: Request) -> tuple[OutputAbility, ...]:
    """What a dialect says of a request; one that says nothing is trusted with everything."""
    knows = getattr(dialect, "output_abilities", None)  # `isinstance` of a protocol takes 20 us
    return ("json_schema", "tool", "json_object") if knows is None else knows(request)


@runtime_checkable
class TakesPrefix(Protocol):
    """The optional part of a dialect whose models may go on with an answer that is begun for them."""

    def takes_prefix(self, request: Request) -> bool:
        """Whether the model that is asked goes on with the assistant's message at the end."""
        ...


def takes_prefix(dialect: Dialect, request: Request) -> bool:
    """Whether an answer may be begun for the model; no, unless the dialect says so."""
    return isinstance(dialect, TakesPrefix) and dialect.takes_prefix(request)


class Position(msgspec.Struct, frozen=True):
    """How far an answer has been read that its vendor keeps.

    sequence_number: of the last event that was read; -1 where none was
    """

    response_id: str
    sequence_number: int = -1


@runtime_checkable
class FollowingDecoder(Decoder, Protocol):
    """A decoder of an answer that its vendor keeps: it can go on with another body of the same answer.

    `feed` gives what one event of the wire says, and holds the rest back: what a reader has been
    given and how far the answer is read always agree.

    gap: events are missing, and reading does not go on in this body; None otherwise
    """

    gap: LLMStreamError | None

    @property
    def position(self) -> Position | None:
        """How far the answer is read; None while it has no name, or where it is not kept after all."""
        ...

    @property
    def held(self) -> bool:
        """Whether there is more to be given by `feed(b"")`."""
        ...

    def reconnect(self) -> None:
        """Another body follows, which goes on from `position` or begins before it."""
        ...

    def catch_up(self, body: bytes) -> None:
        """The whole answer has come in one piece: what was not given of it is held, to be given now."""
        ...


@runtime_checkable
class KeepsAnswers(Protocol):
    """The optional part of a dialect whose vendor keeps answers, so that they can be read on."""

    def keep(self, request: Request, *, provider: str) -> Request | None:
        """The request that asks the vendor to keep the answer; None where this vendor does not.

        raises: InvalidRequest where the request says the contrary
        """
        ...

    def is_kept(self, request: Request, *, provider: str) -> bool:
        """Whether a request asks for that."""
        ...

    def resume(self, position: Position) -> HttpRequest:
        """The request for the rest of an answer, or for all of it at number -1."""
        ...

    def look_up(self, response_id: str) -> HttpRequest:
        """The request for an answer in one piece, as far as it is made."""
        ...

    def is_made(self, body: bytes) -> bool:
        """Whether the answer to that is the whole: nothing more will be made of it."""
        ...

    def cancel(self, response_id: str) -> HttpRequest:
        """The request that ends the making of an answer."""
        ...

    def following_decoder(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        after: Position | None = None,
    ) -> FollowingDecoder:
        """A decoder of an answer that is kept.

        after: what comes up to there is read, but not given: the answer is read again from its
               beginning, so that the rest is told with all that it rests on
        """
        ...


def keeps_answers(dialect: Dialect) -> TypeGuard[KeepsAnswers]:
    """Whether a dialect is one whose vendor keeps answers. Asked for each call, so one look has to do."""
    return hasattr(dialect, "following_decoder")


def goes_on(decoder: Decoder) -> TypeGuard[FollowingDecoder]:
    """Whether a decoder can go on with another body. Asked for each call, so one look has to do."""
    return hasattr(decoder, "reconnect")


class Place(msgspec.Struct, frozen=True):
    """Where another request continues an answer that its vendor cut into several responses.

    token:       the vendor's own, opaque
    response_id: of the response that gave the token, where the vendor asks for it
    """

    token: str
    response_id: str | None = None


@runtime_checkable
class ContinuingDecoder(Decoder, Protocol):
    """A decoder of an answer that may come in several responses, one body after the other.

    It finishes an answer that the vendor cut off only in `close`, so that another body can follow.

    """

    @property
    def gap(self) -> LLMStreamError | None:
        """The error of a body that ends before its first event, where another attempt may help; else None."""
        ...

    @property
    def next_place(self) -> Place | None:
        """Asks for exactly what follows the events so far; None where the vendor gave no such place."""
        ...

    @property
    def unfinished(self) -> Metadata | None:
        """What the finish of an answer that broke off says of where it may be continued."""
        ...

    def go_on(self) -> None:
        """Another body follows: the response to a request with `next_place`."""
        ...


@runtime_checkable
class ContinuesAnswers(Protocol):
    """The optional part of a dialect whose vendor cuts long answers into several responses."""

    def continues(self, request: Request, *, provider: str) -> bool:
        """Whether the answer is to be continued without being asked; its decoder is a ContinuingDecoder."""
        ...

    def continued(self, request: Request, place: Place, *, provider: str) -> Request:
        """The request for what follows a place in the answer to `request`."""
        ...

    def place_of(self, request: Request) -> Place | None:
        """The reverse of `continued`: where a request continues an answer; None for any other request."""
        ...

    def cut_off(self, place: Place, usage: Usage) -> Finish:
        """The finish of a response that another one continues."""
        ...


def continues_answers(dialect: Dialect) -> TypeGuard[ContinuesAnswers]:
    """Whether a dialect's vendor cuts long answers. Asked for each call, so one look has to do."""
    return hasattr(dialect, "cut_off")


def takes_more(decoder: Decoder) -> TypeGuard[ContinuingDecoder]:
    """Whether a decoder takes the responses that continue an answer."""
    return hasattr(decoder, "go_on")


@runtime_checkable
class TalksOverSockets(Protocol):
    """The optional part of a dialect whose vendor also answers over a WebSocket, at the same address."""

    def talks(self) -> bool:
        """Whether this vendor does."""
        ...

    def talk(self, *, provider: str) -> Talk:
        """The messages over one socket."""
        ...

    def socket_request(self, body: bytes) -> Any:
        """The body of a request over HTTP, as the talk wants it."""
        ...

    def socket_decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> Decoder:
        """A decoder for one answer, whose messages are framed as server-sent events."""
        ...


def talks_over_sockets(dialect: Dialect) -> TypeGuard[TalksOverSockets]:
    """Whether the vendor of a dialect answers over WebSockets."""
    return isinstance(dialect, TalksOverSockets) and dialect.talks()
