"""A dialect's good body made into a bad one: cut, stalled, overloaded in the middle, doubled, split."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from llmstream.dialects.base import Dialect
from llmstream.errors import ErrorInfo, InvalidRequest
from llmstream.serving.wires import server_side
from llmstream.testing.faults import Do, Step

__all__ = ["Chaos", "chaos"]

_NDJSON: Final = "application/x-ndjson"
_END: Final = {"text/event-stream": re.compile(rb"\r\n\r\n|\n\n|\r\r"), _NDJSON: re.compile(rb"\n")}

Chaos: TypeAlias = Literal["cut", "reset", "stall", "overloaded", "doubled", "split"]
"""What `chaos` can do to a body."""


def chaos(body: bytes, kind: Chaos, *, dialect: Dialect, at: int | None = None) -> list[Step]:
    """The steps of an answer's body, for `answered` of a `FaultServer`.

    kind:   cut: the body ends at byte `at`. reset: the connection breaks there. stall: nothing more comes.
            overloaded: the vendor's overload (529) as an event of the stream, and the end. doubled: the
            event before `at` comes twice. split: every byte in a write of its own, UTF-8 characters too
    at:     a byte of the body; by default its middle. Where events must stay whole, the next end of one
    raises: InvalidRequest for overloaded and doubled where the framing is no text
    """
    at = len(body) // 2 if at is None else at
    match kind:
        case "cut":
            return [body[:at]]
        case "reset":
            return [body[:at], Do.RESET]
        case "stall":
            return [body[:at], Do.HANG]
        case "split":
            return [body[place : place + 1] for place in range(len(body))]
        case "overloaded":
            end = _end_of_event(body, at, dialect)
            return [body[:end], _overload(dialect)]
        case "doubled":
            ends = _ends(body, dialect)
            end = _end_of_event(body, at, dialect)
            start = max((place for place in ends if place < end), default=0)
            return [body[:end], body[start:end], body[end:]]


def _ends(body: bytes, dialect: Dialect) -> list[int]:
    """Where the events of a body end."""
    if dialect.content_type not in _END:
        raise InvalidRequest(
            f"the framing of {dialect.name} is no text; cut, reset, stall and split can be had"
        )
    return [found.end() for found in _END[dialect.content_type].finditer(body)]


def _end_of_event(body: bytes, at: int, dialect: Dialect) -> int:
    return min((place for place in _ends(body, dialect) if place > at), default=len(body))


def _overload(dialect: Dialect) -> bytes:
    """The vendor's own words for an overload, framed as an event."""
    info = ErrorInfo("overloaded", "Overloaded", True, status=529, reason="overloaded_error")
    said = b" ".join(server_side(dialect).encode_error(info).body.split(b"\n"))
    if dialect.content_type == _NDJSON:
        return said + b"\n"
    return b"event: error\ndata: " + said + b"\n\n"
