"""Reading a request, as far as it is the same on every wire: the reverse of `dialects.requests`.

The settings are read by the table that writes them. How a vendor words its refusals stays with the
vendor, as functions that make the error.
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

WrongType: TypeAlias = Callable[[Field, object], Exception]
"""The vendor's error for a value that is no number, no integer or no list of strings."""

OutOfRange: TypeAlias = Callable[[Field, float, float], Exception]
"""The vendor's error for a value beyond a bound, which comes last."""

_OF_THE_CONNECTION: Final = frozenset(
    {"content-type", "accept", "content-length", "host", "connection", "user-agent", "accept-encoding"}
)


def json_object(http: HttpRequest) -> dict[str, Any] | None:
    """The body; None where it is no JSON object."""
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
    """The settings by our names, taken out of the body. Of two fields for one setting the first wins.

    out_of_range: None where the vendor does not check ranges
    one_stop:     a stop sequence may stand without a list
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
        elif isinstance(value, bool) or not isinstance(
            value, int if field.kind == "integer" else (int, float)
        ):
            raise wrong_type(field, value)
        elif out_of_range is not None and field.fit(value) != value:
            raise out_of_range(field, value, field.fit(value))
        found.setdefault(field.name, value)
    return found


def checked_settings(values: dict[str, Any], fields: Iterable[Field]) -> Settings:
    """The settings of values that the vendor's own checks have passed."""
    found: dict[str, Any] = {}
    for field in fields:
        value = values.get(field.wire_name)
        if field.kind == "strings":
            value = tuple(str(text) for text in value) if isinstance(value, list) else ()
        elif field.kind == "integer" and value is not None:
            value = int(value)
        found[field.name] = value
    return Settings(**found)


def read_function(name: str, description: object, schema: object, strict: object = None) -> ToolSpec:
    """A function; what is of another type than it should be is left out."""
    return ToolSpec(
        name,
        description if isinstance(description, str) else "",
        schema if isinstance(schema, dict) else {},
        strict if isinstance(strict, bool) else None,
    )


def user_turn(parts: Iterable[Part]) -> list[Message]:
    """The messages of a user's turn in which results of tools may stand: these are a message of their own."""
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
    """Leaves `stream` in the body only where it differs from what a dialect writes."""
    if body.pop("stream", None) is not True:
        body["stream"] = False


def with_rest(request: Request, http: HttpRequest, key: str, rest: dict[str, Any]) -> Request:
    """The request with the vendor's own fields, and with headers that are not the connection's."""
    headers = {name: value for name, value in http.headers.items() if name.lower() not in _OF_THE_CONNECTION}
    options = {key: rest} if rest else {}
    return msgspec.structs.replace(request, provider_options=options, headers=headers)
