"""The server side of a dialect: HTTP requests to Requests, events to bytes, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from llmstream.dialects.base import Dialect
from llmstream.errors import ErrorInfo
from llmstream.events import Event
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request

__all__ = ["EventEncoder", "ServerSide"]


class EventEncoder(Protocol):
    """The reverse of a decoder: events in, bytes of a response body out."""

    def feed(self, event: Event) -> bytes:
        """The bytes of one event; b"" where they come later or the wire cannot express it."""
        ...

    def close(self) -> bytes:
        """The bytes that end the body."""
        ...


class ServerSide(msgspec.Struct, frozen=True, kw_only=True):
    """What a server of one dialect does with requests and events.

    dialect:           the client side, with its quirks
    accepts:           whether a request is of this dialect, by its method and path
    decode_request:    the reverse of `Dialect.encode`, checked as the vendor checks it;
                       raises ProviderError as the vendor would refuse (BadRequest with its message)
    event_encoder:     the reverse of `Dialect.decoder`, for the response to one request
    encode_error:      the reverse of `Dialect.decode_error`
    complete_response: the JSON body without streaming that holds what a streamed body holds; None where
                       the vendor only streams
    """

    dialect: Dialect
    accepts: Callable[[HttpRequest], bool]
    decode_request: Callable[[HttpRequest], Request]
    event_encoder: Callable[[Request], EventEncoder]
    encode_error: Callable[[ErrorInfo], HttpResponse]
    complete_response: Callable[[bytes], bytes] | None = None

    @property
    def name(self) -> str:
        """Name of the dialect, such as "openai-chat"."""
        return self.dialect.name

    @property
    def content_type(self) -> str:
        """Media type of a streamed response, for example "text/event-stream"."""
        return self.dialect.content_type
