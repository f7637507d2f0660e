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
from llmstream.dialects.model_facts import ModelFacts, ModelPage
from llmstream.errors import LLMStreamError
from llmstream.events import Event, Finish, Metadata, Usage, Warning
from llmstream.exchange import HttpRequest, Talk
from llmstream.request import Request

__all__ = [
    "Background",
    "Continuation",
    "ContinuingDecoder",
    "Decoder",
    "Dialect",
    "Encoded",
    "FollowingDecoder",
    "OutputAbility",
    "Place",
    "Position",
    "Sockets",
    "StreamLimits",
    "goes_on",
    "takes_more",
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


OutputAbility: TypeAlias = Literal["json_schema", "tool", "json_object"]
"""How a model can be held to JSON: to a schema, by a forced tool call, or to JSON of any shape."""


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


class Dialect(msgspec.Struct, frozen=True):
    """The client side of an API: requests out, events in, without I/O.

    A dialect is a value that holds the quirks of a server. `name` to `decode_error` are every dialect's
    own; the rest has a default for vendors without the feature. `provider` names the vendor in errors and
    as key of metadata.
    """

    @property
    def name(self) -> str:
        """As in `llmstream replay --dialect`, for example "openai-chat"."""
        raise NotImplementedError

    @property
    def content_type(self) -> str:
        """Media type of a streamed response, for example "text/event-stream"."""
        raise NotImplementedError

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """The HTTP request, without address and key.

        raises: InvalidRequest, Unsupported
        """
        raise NotImplementedError

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> Decoder:
        """A decoder for one response body."""
        raise NotImplementedError

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """The typed error of a response that is not a stream; header names are lower case."""
        raise NotImplementedError

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether a part may stay a URL. Where the vendor does not fetch it, it is sent as bytes.

        True as well where bytes would be refused or left out just the same.
        """
        return True

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """How the model can be held to JSON in this request, best first; () where it cannot."""
        return ("json_schema", "tool", "json_object")

    def takes_prefix(self, request: Request) -> bool:
        """Whether the model continues an assistant message at the end of the prompt."""
        return False

    @property
    def counts_usage(self) -> bool:
        """Whether a stream reports token counts."""
        return True

    def facts(self, model: str) -> ModelFacts:
        """What is known of a model by its name."""
        return ModelFacts()

    def model_page(self, model: str) -> ModelPage | None:
        """Where to look a model up; None where the server has no such page."""
        return None

    @property
    def counts_tokens(self) -> bool:
        """Whether the vendor counts the tokens of a request without responding to it."""
        return False

    def count_request(self, http: HttpRequest) -> HttpRequest | None:
        """The request that counts the tokens of an encoded one; None where the server counts none."""
        return None

    def repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        """The request as the vendor would accept it; None where the error is about something else."""
        return None

    @property
    def background(self) -> Background | None:
        """Responses that the vendor stores while it makes them; None where it stores none."""
        return None

    @property
    def continuation(self) -> Continuation | None:
        """Long responses in several parts; None where the vendor does not cut them."""
        return None

    @property
    def sockets(self) -> Sockets | None:
        """Responses over WebSockets; None where the vendor has none."""
        return None


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


class Background(Protocol):
    """Responses that a vendor stores while it makes them, so that reading can be resumed."""

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


class Continuation(Protocol):
    """Long responses that a vendor cuts into several parts."""

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


def takes_more(decoder: Decoder) -> TypeGuard[ContinuingDecoder]:
    """Whether a decoder takes the responses that continue an answer."""
    return hasattr(decoder, "go_on")


class Sockets(Protocol):
    """Responses over WebSockets, at the address that HTTP has."""

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
