"""Reads the parts of a request that all dialects share: the reverse of `dialects.requests`.

Settings are read by the table that writes them. Each vendor passes functions that make its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.chats.content import Part, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.requests import Field
from llmstream.exchange import HttpRequest
from llmstream.request import Request, Settings, ToolSpec

__all__ = [
    "OutOfRange",
    "WrongType",
    "checked_settings",
    "json_object",
    "leave_stream",
    "read_function",
    "read_settings",
    "user_turn",
    "with_rest",
]

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
