"""Complete answers, as vendors send them without `stream` and in the results of batches.

A dialect rewrites such a body as the stream that holds the same answer, and its decoder reads that. So
there is one decoder a wire, and both kinds of answer become the same events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from llmstream.dialects.guarded_decoder import GuardedDecoder

if TYPE_CHECKING:
    from llmstream.dialects.base import Decoder, Dialect, StreamLimits
    from llmstream.events import Event

__all__ = ["as_data", "decode_complete", "encoded_json", "json_object", "on_one_line", "status_of"]

# Of framing around a body that is within its limit.
_FRAME_BYTES = 4096


def decode_complete(
    dialect: Dialect,
    body: bytes,
    *,
    provider: str,
    limits: StreamLimits,
    reading: Callable[[Decoder], Decoder] = lambda decoder: decoder,
) -> list[Event]:
    """The events of a complete answer, from `stream-start` to `finish`, whatever the body holds.

    reading: wraps the decoder, if the request's output mode needs it
    """
    streamed = dialect.streamed_form(body)
    # The body is in memory already, so its size is the caller's decision.
    size = max(limits.max_event_bytes, len(streamed) + _FRAME_BYTES)
    roomy = msgspec.structs.replace(limits, max_event_bytes=size)
    decoder = GuardedDecoder(reading(dialect.decoder(provider=provider, limits=roomy)), provider=provider)
    events = decoder.start() + decoder.feed(streamed)
    return events if decoder.done else events + decoder.close()


def on_one_line(body: bytes) -> bytes:
    """The same JSON on one line: strings of JSON hold no line feeds, so they are white space."""
    return body.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b" ").replace(b"\n", b" ")


def as_data(*payloads: bytes) -> bytes:
    """Payloads as server-sent events."""
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


def encoded_json(value: object) -> bytes:
    """JSON on one line; a lone surrogate stays an escape, for the decoder to repair."""
    return json.dumps(value, separators=(",", ":")).encode()


def json_object(body: bytes) -> dict[str, Any] | None:
    """The object of a body; None for anything else."""
    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Marks(msgspec.Struct, gc=False):
    type: Any = None
    object: Any = None
    status: Any = None


_marks = msgspec.json.Decoder(_Marks)


def status_of(body: bytes, names: Iterable[str] = ("status",)) -> str | None:
    """The first text at one of these fields of the body: type, object, status."""
    found: Any
    try:
        found = _marks.decode(body)
        values = [getattr(found, name) for name in names]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = json_object(body) or {}
        values = [found.get(name) for name in names]
    return next((value for value in values if isinstance(value, str) and value), None)
