"""The server side of every dialect: HTTP request to `Request`, events to bytes, without I/O.

Each dialect has a folder, or a module where one suffices: `reader` reads requests, and rejects valid JSON
that the vendor would reject; `writer` writes responses. `server_side(dialect)` finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import msgspec

from llmstream.dialects.base import DIALECTS, Dialect
from llmstream.errors import ErrorInfo, Unsupported
from llmstream.events import Event
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request

__all__ = [
    "EventEncoder",
    "ServerSide",
    "posts_to",
    "server_side",
]


class EventEncoder(Protocol):
    """Encodes the events of one response to the bytes of its body: the reverse of a decoder."""

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event; b"" if they are written later or the wire cannot express it."""
        ...

    def close(self) -> bytes:
        """Returns the bytes that end the body."""
        ...


class ServerSide(msgspec.Struct, frozen=True, kw_only=True):
    """The server side of one dialect, as functions.

    dialect:           the client side, with its quirks
    accepts:           whether method and path of a request belong to this dialect
    decode_request:    the reverse of `Dialect.encode`, with the vendor's checks;
                       raises ProviderError for a request that the vendor rejects, with its message
    event_encoder:     the reverse of `Dialect.decoder`, for the response to one request
    encode_error:      the reverse of `Dialect.decode_error`
    complete_response: builds the body of a response without streaming, as a JSON object, from the streamed
                       one; None if the vendor only streams
    """

    dialect: Dialect
    accepts: Callable[[HttpRequest], bool]
    decode_request: Callable[[HttpRequest], Request]
    event_encoder: Callable[[Request], EventEncoder]
    encode_error: Callable[[ErrorInfo], HttpResponse]
    complete_response: Callable[[bytes], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """Name of the dialect, such as "openai-chat"."""
        return self.dialect.name

    @property
    def content_type(self) -> str:
        """Media type of a streamed response, for example "text/event-stream"."""
        return self.dialect.content_type


def posts_to(path: str) -> Callable[[HttpRequest], bool]:
    """Returns `accepts` of a wire whose requests are POSTs to one path, below any prefix."""
    return lambda http: http.method == "POST" and http.url.partition("?")[0].endswith(path)


def server_side(dialect: Dialect) -> ServerSide:
    """Returns the server side of a dialect, with the same quirks.

    raises: Unsupported for a dialect without a server side
    """
    if dialect.name not in DIALECTS:
        raise Unsupported(f"the dialect {dialect.name} has no server side. Pass a ServerSide instead.")
    module = import_module(f"{__name__}.{dialect.name.replace('-', '_')}")
    side: ServerSide = module.server_side(dialect)
    return side
