"""The server side of every dialect: HTTP request to `Request`, events to bytes, without I/O.

Each dialect has a folder, or a module where one suffices: `reader` reads requests, and rejects valid JSON
that the vendor would reject; `writer` writes responses. `server_side(dialect)` finds it.

Readers share functions here, the reverse of `dialects.requests`. Settings are read by the table that writes
them. Each vendor passes functions that make its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from llmstream.chats.content import Part, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.base import DIALECTS, Dialect
from llmstream.dialects.requests import Field
from llmstream.errors import ErrorInfo, Unsupported
from llmstream.events import Event
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request, Settings, ToolSpec

__all__ = [
    "EventEncoder",
    "OutOfRange",
    "ServerSide",
    "WrongType",
    "checked_settings",
    "json_object",
    "leave_stream",
    "posts_to",
    "read_function",
    "read_settings",
    "server_side",
    "user_turn",
    "with_rest",
]


# The server side of one dialect.


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


# What readers share: the parts of a request that all dialects have.

# Returns the vendor's error for a value that is not a number, an integer or a list of strings.
WrongType: TypeAlias = Callable[[Field, object], Exception]

# Returns the vendor's error for a value beyond a bound, the last argument.
OutOfRange: TypeAlias = Callable[[Field, float, float], Exception]

# Our own request sets these for its own body and connection.
_OF_THE_CONNECTION: Final = frozenset(
    {"content-type", "accept", "content-length", "host", "connection", "user-agent", "accept-encoding"}
)


def json_object(http: HttpRequest) -> dict[str, Any] | None:
    """Decodes the body; None if it is not a JSON object."""
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def read_settings(
    body: dict[str, Any],
    fields: Iterable[Field],
    *,
    wrong_type: WrongType,
    out_of_range: OutOfRange | None = None,
    one_stop: bool = False,
) -> dict[str, Any]:
    """Removes the settings from the body and returns them. Of two fields for one setting the first takes
    precedence.

    out_of_range: None if the vendor does not check ranges
    one_stop:     a single stop sequence may be a string
    """
    found: dict[str, Any] = {}
    for field in fields:
        value = body.pop(field.wire_name, None)
        if value is None:
            continue
        if field.kind == "strings":
            value = [value] if one_stop and isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
                raise wrong_type(field, value)
            value = tuple(value)
        # A bool is an int to Python.
        elif isinstance(value, bool) or not isinstance(
            value, int if field.kind == "integer" else (int, float)
        ):
            raise wrong_type(field, value)
        elif out_of_range is not None and field.fit(value) != value:
            raise out_of_range(field, value, field.fit(value))
        # The tables have the newer name of a setting before the older one.
        found.setdefault(field.name, value)
    return found


def checked_settings(values: dict[str, Any], fields: Iterable[Field]) -> Settings:
    """Builds settings from values that have passed the vendor's own checks."""
    found: dict[str, Any] = {}
    for field in fields:
        value = values.get(field.wire_name)
        if field.kind == "strings":
            value = tuple(str(text) for text in value) if isinstance(value, list) else ()
        elif field.kind == "integer" and value is not None:
            # Google takes 100.0 for an integer, as JSON of protobuf does.
            value = int(value)
        found[field.name] = value
    return Settings(**found)


def read_function(name: str, description: object, schema: object, strict: object = None) -> ToolSpec:
    """Returns a tool; fields of a wrong type are ignored."""
    return ToolSpec(
        name,
        description if isinstance(description, str) else "",
        schema if isinstance(schema, dict) else {},
        strict if isinstance(strict, bool) else None,
    )


def user_turn(parts: Iterable[Part]) -> list[Message]:
    """Splits a user turn into messages: tool results become a message of their own."""
    results: list[ToolResult] = []
    others: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            results.append(part)
        else:
            others.append(part)
    found = [Message.tool(results)] if results else []
    return [*found, Message.user(*others)] if others else found


def leave_stream(body: dict[str, Any]) -> None:
    """Removes `stream` from the body unless it differs from what the dialect writes."""
    if body.pop("stream", None) is not True:
        body["stream"] = False


def with_rest(request: Request, http: HttpRequest, key: str, rest: dict[str, Any]) -> Request:
    """Adds the vendor's own fields, and headers other than those of the connection."""
    headers = {name: value for name, value in http.headers.items() if name.lower() not in _OF_THE_CONNECTION}
    options = {key: rest} if rest else {}
    return msgspec.structs.replace(request, provider_options=options, headers=headers)
