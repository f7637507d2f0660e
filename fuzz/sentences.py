"""Dialects: for any bytes a sentence, the same whole and in pieces, that can be written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fuzz.inputs import read
from llmstream.cli.config import wire_of
from llmstream.dialects.anthropic import BEDROCK_INVOKE
from llmstream.dialects.anthropic.wire import invoke_frame
from llmstream.dialects.base import Dialect, StreamLimits
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Event, decode, encode
from llmstream.framing.aws_event_stream import encode_message
from llmstream.grammar import check
from llmstream.testing.conformance import with_numbered_ids

RAW = 1  # mode: raw events are wanted
TIGHT = 2  # mode: small limits
LINES = 4  # mode: each line is one payload, framed as the dialect frames it
OTHER = 8  # mode, with LINES: framed in the dialect's second way, where it has one

_MOST_LINES = 10  # a hundred lines of noise try the same thing a hundred times
_TIGHT = StreamLimits(max_event_bytes=600, max_tool_input_bytes=40, max_blocks=4)


class Way(NamedTuple):
    """A dialect, and how the payloads of a body are framed in it."""

    dialect: Dialect
    framed: Callable[[list[bytes]], bytes]


def target(name: str) -> Callable[[bytes], None]:
    """The test of one dialect."""
    usual, other, provider = ways(name)

    def run(data: bytes) -> None:
        given = read(data)
        (dialect, framed), body = (other if given.mode & OTHER else usual), given.body
        if given.mode & LINES:
            body = framed([line for line in body.split(b"\n") if line][:_MOST_LINES])
        whole = _sentence(dialect, provider, given.mode, (body,))
        broken = check(whole)
        assert not broken, broken
        pieces = _sentence(dialect, provider, given.mode, given.pieces(body))
        if pieces != whole:
            _same(with_numbered_ids(pieces), with_numbered_ids(whole))
        for event in whole:
            decode(encode(event))

    return run


def ways(name: str) -> tuple[Way, Way, str]:
    """The dialect as it mostly comes, in its second framing if it has one, and its provider."""
    dialect, provider, _ = wire_of(name, None)
    frame = {"ollama": _as_line, "bedrock-converse": _as_message}.get(name, _as_sse)
    usual = Way(dialect, lambda payloads: b"".join(map(frame, payloads)))
    match name:
        case "anthropic":
            other = Way(BEDROCK_INVOKE, lambda payloads: b"".join(map(invoke_frame, payloads)))
        case "gemini":
            other = Way(dialect, lambda payloads: b"[" + b",\r\n".join(payloads) + b"]")
        case _:
            other = usual
    return usual, other, provider


def _as_sse(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def _as_line(payload: bytes) -> bytes:
    return payload + b"\n"


def _as_message(line: bytes) -> bytes:
    """A line is `TYPE PAYLOAD`."""
    name, _, payload = line.partition(b" ")
    kind = "exception" if name.endswith(b"Exception") else "event"
    headers = {f":{kind}-type": name.decode("latin-1"), ":message-type": kind}
    return encode_message(headers, payload)


def _sentence(dialect: Dialect, provider: str, mode: int, pieces: tuple[bytes, ...]) -> list[Event]:
    limits = _TIGHT if mode & TIGHT else StreamLimits()
    decoder = dialect.decoder(provider=provider, include_raw=bool(mode & RAW), limits=limits)
    sentence = GuardedDecoder(decoder, provider=provider)
    events = sentence.start()
    for piece in pieces:
        events = events + sentence.feed(piece)
    return events + sentence.close()


def _same(events: list[Event], expected: list[Event]) -> None:
    if events == expected or repr(events) == repr(expected):
        return
    for number, (event, wanted) in enumerate(zip(events, expected, strict=False)):
        assert repr(event) == repr(wanted), f"event {number} in pieces is {event!r}, whole {wanted!r}"
    raise AssertionError(f"{len(events)} events in pieces, {len(expected)} whole: {events} / {expected}")
