"""Dialect: the shape of an API on the wire, without I/O; and the dialects by name.

A dialect turns a `Request` into an HTTP request, and the bytes of the response into events. The server
side, which reads requests and writes events as bytes, is in `server_side/`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

import msgspec

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.model_facts import ModelFacts, ModelPage
from llmstream.errors import LLMStreamError, Unsupported
from llmstream.events import Event, Finish, Metadata, Usage, Warning
from llmstream.exchange import HttpRequest, SocketProtocol

if TYPE_CHECKING:
    from llmstream.request import Request


__all__ = [
    "DIALECTS",
    "Background",
    "Continuation",
    "ContinuingDecoder",
    "Decoder",
    "Dialect",
    "Encoded",
    "OutputAbility",
    "Place",
    "Position",
    "ResumableDecoder",
    "Sockets",
    "StreamLimits",
    "can_continue",
    "can_resume",
    "dialect_class",
]

# Of framing around a body that is within its limit.
_FRAME_BYTES: Final = 4096


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Caps on what one response may hold; past one, the stream ends in `LimitExceeded`.

    max_event_bytes:      one line, frame or event of the wire
    max_tool_input_bytes: the joined input of one tool call
    max_blocks:           blocks and calls of one response
    max_held_bytes:       memory that a decoder holds of one response: inputs of open calls, recordings,
                          citations, log probabilities of a block, URLs of sources
    """

    max_event_bytes: int = 16 * 1024 * 1024
    max_tool_input_bytes: int = 16 * 1024 * 1024
    max_blocks: int = 10_000
    max_held_bytes: int = 32 * 1024 * 1024


OutputAbility: TypeAlias = Literal["json_schema", "tool", "json_object"]
"""How JSON output can be enforced: by a schema, by a forced tool call, or as JSON of any shape."""


class Encoded(msgspec.Struct, frozen=True):
    """An HTTP request, whose URL is relative to the provider's base URL, and its warnings."""

    http: HttpRequest
    warnings: list[Warning] = msgspec.field(default_factory=list)


class Decoder(Protocol):
    """One response body: bytes in, events out.

    A decoder emits neither `stream-start` (the guard does) nor the error and finish of an interrupted
    stream. It emits `finish` once, when no further event can follow.

    complete: the vendor has reported the response as complete (trailers may follow)
    done:     the rest of the body is not needed: finish was emitted, or `failure` is set
    failure:  why the stream cannot continue, such as an error the vendor sent inside it
    """

    complete: bool
    done: bool
    failure: LLMStreamError | None

    @property
    def usage(self) -> Usage:
        """Tokens the vendor has reported so far; some decoders compute this on access."""
        ...

    def feed(self, chunk: bytes) -> list[Event]:
        """Decodes a slice of the body; returns the events that it completes."""
        ...

    def close(self) -> list[Event]:
        """Ends the input; returns the events held back, and finish if the response is complete."""
        ...


class Dialect(msgspec.Struct, frozen=True):
    """The client side of an API: encodes requests and decodes events, without I/O.

    A dialect is a value that holds the quirks of a server. Every dialect defines `name` to `decode_error`;
    the others have a default for vendors without the feature. `provider` names the vendor in errors and
    is the key of metadata.
    """

    @property
    def name(self) -> str:
        """Name of the dialect, as in `llmstream replay --dialect`: "openai-chat"."""
        raise NotImplementedError

    @property
    def content_type(self) -> str:
        """Media type of a streamed response: "text/event-stream"."""
        raise NotImplementedError

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported
        """
        raise NotImplementedError

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> Decoder:
        """Creates a decoder for one response body."""
        raise NotImplementedError

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """Returns the typed error of a response that is not a stream; header names are lower case."""
        return vendor_error(status, headers, body, provider=provider)

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the body of a stream with the same content, for `decode_complete`.

        raises: Unsupported for a dialect that only streams
        """
        raise Unsupported(f"the dialect {self.name} reads streams only: it has no streamed_form()")

    def decode_complete(
        self,
        body: bytes,
        *,
        provider: str = "",
        limits: StreamLimits = StreamLimits(),
        reading: Callable[[Decoder], Decoder] | None = None,
    ) -> list[Event]:
        """Decodes a complete answer: the body of a response without `stream`, or a result of a batch.

        It is rewritten as the stream that holds the same answer, and the dialect's decoder reads that. So
        there is one decoder a wire, and both kinds of answer become the same events.

        reading: wraps the decoder, if the request's output mode needs it
        returns: a valid sequence of events, from `stream-start` to `finish`. For a body that is an error, or
                 cannot be read, it ends in `error` and `finish`
        """
        from llmstream.dialects.guarded_decoder import GuardedDecoder  # which imports this module

        streamed, provider = self.streamed_form(body), provider or self.name
        # The body is in memory already, so its size is the caller's decision.
        size = max(limits.max_event_bytes, len(streamed) + _FRAME_BYTES)
        decoder = self.decoder(
            provider=provider, limits=msgspec.structs.replace(limits, max_event_bytes=size)
        )
        guarded = GuardedDecoder(reading(decoder) if reading else decoder, provider=provider)
        events = guarded.start() + guarded.feed(streamed)
        return events if guarded.done else events + guarded.close()

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether a part can be sent as a URL. Otherwise it is downloaded and sent as bytes.

        Also True where bytes would be rejected or left out as well.
        """
        return True

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced in this request, best first; () if it cannot."""
        return ("json_schema", "tool", "json_object")

    def takes_prefix(self, request: Request) -> bool:
        """Whether the model continues an assistant message at the end of the prompt."""
        return False

    @property
    def counts_usage(self) -> bool:
        """Whether a stream reports token counts."""
        return True

    def facts(self, model: str) -> ModelFacts:
        """Returns the facts about a model known from its name."""
        return ModelFacts()

    def model_page(self, model: str) -> ModelPage | None:
        """Returns where the server lists a model; None if it has no such page."""
        return None

    @property
    def count_request(self) -> Callable[[HttpRequest], HttpRequest] | None:
        """Turns an encoded request into the one that counts its tokens; None if the server counts none.

        A property, so that no prompt is encoded for a server that does not count.
        """
        return None

    def repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        """Returns a request that avoids the error; None if the error is about something else."""
        return None

    @property
    def background(self) -> Background | None:
        """Responses that the vendor stores while generating them; None if it stores none."""
        return None

    @property
    def continuation(self) -> Continuation | None:
        """Long responses in several parts; None if the vendor does not split them."""
        return None

    @property
    def sockets(self) -> Sockets | None:
        """Responses over WebSockets; None where the vendor has none."""
        return None


class Position(msgspec.Struct, frozen=True):
    """How far a stored response has been read.

    sequence_number: of the last event read; -1 if none
    """

    response_id: str
    sequence_number: int = -1


@runtime_checkable
class ResumableDecoder(Decoder, Protocol):
    """Decodes a response that the vendor stores; it can continue with another body of the same response.

    `feed` returns the events of one wire event and holds the rest back, so that the emitted events and
    `position` always agree.

    gap: error where events are missing and this body cannot be read further; else None
    """

    gap: LLMStreamError | None

    @property
    def position(self) -> Position | None:
        """How far the response is read; None while it has no id, or if it is not stored."""
        ...

    @property
    def held(self) -> bool:
        """Whether `feed(b"")` returns more events."""
        ...

    def reconnect(self) -> None:
        """Prepares for another body, which starts at `position` or before it."""
        ...

    def catch_up(self, body: bytes) -> None:
        """Accepts the complete response as one body; `feed(b"")` returns the events not emitted yet."""
        ...


class Background(Protocol):
    """Responses that a vendor stores while it makes them, so that reading can be resumed."""

    def store(self, request: Request, *, provider: str) -> Request | None:
        """Returns the request that has the response stored; None if this vendor cannot store it.

        raises: InvalidRequest if the request forbids storing
        """
        ...

    def is_stored(self, request: Request, *, provider: str) -> bool:
        """Whether a request requires the response to be stored."""
        ...

    def resume(self, position: Position) -> HttpRequest:
        """Returns the request for the rest of a response; all of it at sequence number -1."""
        ...

    def look_up(self, response_id: str) -> HttpRequest:
        """Returns the request for the current state of a response, as one JSON object."""
        ...

    def is_made(self, body: bytes) -> bool:
        """Whether the body that `look_up` received is final: the vendor has stopped generating."""
        ...

    def cancel(self, response_id: str) -> HttpRequest:
        """Returns the request that stops a response."""
        ...

    def following_decoder(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        after: Position | None = None,
    ) -> ResumableDecoder:
        """Creates a decoder of a stored response.

        after: events up to there are decoded but not emitted. The response is read again from its
               beginning, because later events depend on earlier ones
        """
        ...


def can_resume(decoder: Decoder) -> TypeGuard[ResumableDecoder]:
    """Whether a decoder can continue with another body. It is called often, so it checks one attribute."""
    return hasattr(decoder, "reconnect")


class Place(msgspec.Struct, frozen=True):
    """Where another request continues a response that its vendor sends in several parts.

    token:       the vendor's own, opaque
    response_id: of the response that held the token, if the vendor requires it
    """

    token: str
    response_id: str | None = None


@runtime_checkable
class ContinuingDecoder(Decoder, Protocol):
    """Decodes a response that may arrive in several parts, one body after the other.

    For a part that is not the last, it emits `finish` only in `close`, so that another body can follow.
    """

    @property
    def gap(self) -> LLMStreamError | None:
        """The error of a body that ended before its first event, if a retry may help; else None."""
        ...

    @property
    def next_place(self) -> Place | None:
        """Where the next request continues after the events so far; None if the vendor gave no token."""
        ...

    @property
    def unfinished(self) -> Metadata | None:
        """Metadata for the finish of an interrupted response: where it can be continued."""
        ...

    def next_body(self) -> None:
        """Prepares for another body: the response to a request with `next_place`."""
        ...


class Continuation(Protocol):
    """Long responses that a vendor cuts into several parts."""

    def continues(self, request: Request, *, provider: str) -> bool:
        """Whether the response is continued automatically; its decoder is then a ContinuingDecoder."""
        ...

    def continued(self, request: Request, place: Place, *, provider: str) -> Request:
        """Returns the request that continues the response to `request` from a place."""
        ...

    def place_of(self, request: Request) -> Place | None:
        """Reverse of `continued`: the place from which a request continues; None for any other request."""
        ...

    def cut_off(self, place: Place, usage: Usage) -> Finish:
        """Returns the finish of a part that another one continues."""
        ...


def can_continue(decoder: Decoder) -> TypeGuard[ContinuingDecoder]:
    """Whether a decoder can read a response in several parts."""
    return hasattr(decoder, "next_body")


class Sockets(Protocol):
    """Responses over WebSockets, at the same URL as over HTTP."""

    def protocol(self, *, provider: str) -> SocketProtocol:
        """Creates the protocol of one socket."""
        ...

    def socket_request(self, body: bytes) -> Any:
        """Converts the body of an HTTP request to the request that the protocol sends."""
        ...

    def socket_decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> Decoder:
        """Creates a decoder for one response, whose messages are framed as server-sent events."""
        ...


# Module and class by name. A new dialect is one line here.
DIALECTS: Final[Mapping[str, tuple[str, str]]] = {
    "openai-chat": ("llmstream.dialects.openai_chat", "OpenAIChat"),
    "openai-responses": ("llmstream.dialects.openai_responses", "OpenAIResponses"),
    "anthropic": ("llmstream.dialects.anthropic", "Anthropic"),
    "gemini": ("llmstream.dialects.gemini", "Gemini"),
    "gemini-interactions": ("llmstream.dialects.gemini_interactions", "GeminiInteractions"),
    "bedrock-converse": ("llmstream.dialects.bedrock_converse", "BedrockConverse"),
    "cohere": ("llmstream.dialects.cohere", "Cohere"),
    "mistral": ("llmstream.dialects.mistral", "Mistral"),
    "ollama": ("llmstream.dialects.ollama", "Ollama"),
}


def dialect_class(name: str) -> Callable[..., Dialect]:
    """Imports the class of a dialect.

    raises: KeyError for an unknown name
    """
    module, kind = DIALECTS[name]
    return cast(Callable[..., Any], getattr(importlib.import_module(module), kind))
