"""Wires: where on a wire the types of an SDK stand, each in a minimal valid stream."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from drift.filled import Rules
from drift.shapes import Choice, Leaf, Record, Shape
from llmstream.framing.aws_event_stream import encode_message

__all__ = [
    "Case",
    "Reasons",
    "Wire",
    "as_aws",
    "as_line",
    "as_sse",
    "encoded",
    "json_text",
    "options_of",
    "tagged",
    "values_of",
]


class Case(NamedTuple):
    """A type and its place.

    place: makes the payloads of a stream of one instance
    """

    name: str
    shape: Shape
    place: Callable[[Any], list[Any]]


class Reasons(NamedTuple):
    """How answers end.

    values: what the SDK knows
    place: makes the payloads of a stream that ends so
    """

    name: str
    values: tuple[Any, ...]
    place: Callable[[Any], list[Any]]


class Wire(NamedTuple):
    """A wire as one SDK knows it.

    name:   of the dialect, as in `llmstream replay --dialect`
    framed: a payload to its bytes
    models: the names that the SDK knows
    """

    name: str
    cases: tuple[Case, ...]
    reasons: tuple[Reasons, ...] = ()
    rules: Rules = Rules()
    models: tuple[str, ...] = ()
    framed: Callable[[Any], bytes] = lambda payload: as_sse(payload)


def as_sse(payload: Any) -> bytes:
    """A server-sent event; a str is sent as it is."""
    return b"data: " + _text(payload) + b"\n\n"


def as_line(payload: Any) -> bytes:
    """A line of NDJSON."""
    return _text(payload) + b"\n"


def as_aws(payload: Any) -> bytes:
    """A message of an AWS event stream; the payload has one key, which is the event's type."""
    ((name, value),) = payload.items()
    kind = "exception" if name.endswith("Exception") else "event"
    return encode_message({f":{kind}-type": name, ":message-type": kind}, _text(value))


def _text(payload: Any) -> bytes:
    return payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()


def json_text(mark: str) -> str:
    """A mark inside JSON text, as the input of a tool is sent."""
    return json.dumps({"marked": mark})


def encoded(mark: str) -> str:
    """A mark as base64."""
    return base64.b64encode(mark.encode()).decode()


def time_text(mark: str) -> str:
    """A mark as a time, for one that the SDK has as text."""
    seconds = int("".join(filter(str.isdigit, mark)) or "0")
    return f"2031-01-01T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def options_of(shape: Shape) -> tuple[Record, ...]:
    """The objects of a union."""
    options = shape.options if isinstance(shape, Choice) else (shape,)
    return tuple(option for option in options if isinstance(option, Record))


def tagged(shape: Shape) -> Mapping[str, Record]:
    """The objects of a union by their tags."""
    return {option.tag: option for option in options_of(shape) if option.tag is not None}


def values_of(shape: Shape) -> tuple[Any, ...]:
    """The known values of a leaf, also where it is one option of several."""
    options = shape.options if isinstance(shape, Choice) else (shape,)
    return tuple(word for option in options if isinstance(option, Leaf) for word in option.values)
