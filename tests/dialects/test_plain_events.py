"""The strict type of frequent events: it reads the same as that of all, and is given up if it never fits."""

from __future__ import annotations

import json
from typing import Any

import pytest

import llmstream as ls
from llmstream.dialects.base import dialect_class
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.events import Event
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.testing import decode_body

WIRES = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "gemini-interactions",
    "bedrock-converse",
    "cohere",
    "mistral",
    "ollama",
)


def body_of(wire: str) -> bytes:
    """Reasoning, text of 60 pieces, and two calls of 60 pieces each."""
    encoder = server_side(dialect_class(wire)()).event_encoder(Request(model="any"))
    pieces = [f" wörd{number}" if number % 7 == 0 else f" word{number}" for number in range(60)]
    events: list[Event] = [
        ls.StreamStart([]),
        ls.ResponseMetadata("any", "answer_01"),
        ls.ReasoningStart("r"),
    ]
    events += [ls.ReasoningDelta(piece, "r") for piece in pieces[:9]]
    events += [ls.ReasoningEnd("r"), ls.TextStart("t"), *(ls.TextDelta(piece, "t") for piece in pieces)]
    events.append(ls.TextEnd("t"))
    for call in ("call_a", "call_b"):
        deltas = ['{"place": "', *pieces, '"}']
        events.append(ls.ToolInputStart("weather", call))
        events += [ls.ToolInputDelta(delta, call) for delta in deltas]
        events += [ls.ToolInputEnd(call), ls.ToolCall("weather", "".join(deltas), call)]
    events.append(ls.Finish("tool-calls", ls.Usage(12, 60, 72)))
    return b"".join([*(encoder.feed(event) for event in events), encoder.close()])


def decoded(decoder: Any, body: bytes, size: int) -> list[Event]:
    """The events without raw ones, of a body in slices."""
    found: list[Event] = []
    for at in range(0, len(body), size):
        found += decoder.feed(body[at : at + size])
    return [event for event in found + decoder.close() if not isinstance(event, ls.Raw)]


@pytest.mark.parametrize("size", [61, 1000, 1 << 20])
@pytest.mark.parametrize("wire", WIRES)
def test_the_strict_type_reads_the_same(wire: str, size: int):
    """With raw events each payload is read by the type of all events."""
    dialect, body = dialect_class(wire)(), body_of(wire)
    strict = decoded(dialect.decoder(provider="any"), body, size)
    general = decoded(dialect.decoder(provider="any", include_raw=True), body, size)
    assert [_unminted(event) for event in strict] == [_unminted(event) for event in general]
    assert sum(type(event) is ls.TextDelta for event in strict) == 60


def _unminted(event: Event) -> Any:
    """An event without the ids that a decoder makes up."""
    found = ls.events.encode(event)
    return {name: value for name, value in json.loads(found).items() if name not in ("id", "toolCallId")}


def chat(count: int, **more: Any) -> bytes:
    """Chunks of text with other fields beside their choices."""
    choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
    chunk = {"id": "1", "model": "m", "choices": [choice], **more}
    return (b"data: " + json.dumps(chunk).encode() + b"\n\n") * count


@pytest.mark.parametrize(("more", "tried"), [({}, True), ({"usage": {"completion_tokens": 1}}, False)])
def test_what_never_fits_is_given_up(more: dict[str, Any], tried: bool):
    """One hit among the misses is enough to go on."""
    decoder = dialect_class("openai-chat")().decoder(provider="any")
    assert isinstance(decoder, PayloadDecoder)
    events = [event for _ in range(3) for event in decoder.feed(chat(20, **more))]
    assert decoder._tries_plain is tried
    assert sum(type(event) is ls.TextDelta for event in events) == 60
    assert decoder.feed(chat(1)) == [ls.TextDelta("a", "0")]


def test_a_null_field_is_still_plain():
    body = chat(30, usage=None, error=None) + b"data: [DONE]\n\n"
    events = decode_body(body, dialect_class("openai-chat")())
    assert [event.delta for event in events if isinstance(event, ls.TextDelta)] == ["a"] * 30


def responses(*events: dict[str, Any]) -> bytes:
    """Events of the Responses API behind the start of a call, its first fragment included."""
    item = {"type": "function_call", "call_id": "call_a", "name": "f", "id": "fc_1", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in (added, piece("{"), *events))


def piece(delta: str, kind: str = "response.function_call_arguments.delta") -> dict[str, Any]:
    """An event with a fragment for that call."""
    return {"type": kind, "output_index": 0, "delta": delta}


def test_only_its_own_fragments_join_an_input():
    decoder = dialect_class("openai-responses")().decoder(provider="any")
    events = decoder.feed(responses(piece("a"), piece("b", "response.other.delta"), piece("c")))
    assert [event.delta for event in events if isinstance(event, ls.ToolInputDelta)] == ["{", "a", "c"]


@pytest.mark.parametrize(
    ("kind", "called"),
    [("response.function_call_arguments.done", True), ("response.other.done", False)],
)
def test_arguments_in_one_piece_end_input(kind: str, called: bool):
    """The call has no end of its item: only its complete arguments show that nothing is missing."""
    again = {"type": kind, "output_index": 0, "arguments": "{a"}
    last = {"type": "response.completed", "response": {"status": "completed"}}
    for include_raw in (False, True):  # with raw events the strict type is not tried
        decoder = dialect_class("openai-responses")().decoder(provider="any", include_raw=include_raw)
        events = decoder.feed(responses(piece("a"), again, last))
        assert any(isinstance(event, ls.ToolCall) for event in events) is called


def test_events_of_other_types_are_misses():
    """Each is decoded twice, as long as the strict type is tried."""
    decoder = dialect_class("openai-responses")().decoder(provider="any")
    assert isinstance(decoder, PayloadDecoder)
    decoder.feed(responses(*[piece("b", "response.other.delta")] * 20))
    assert decoder._tries_plain
    for _ in range(20):
        assert decoder._tries_plain
        decoder.feed(b"data: %b\n\n" % json.dumps(piece("b", "response.other.delta")).encode())
    assert not decoder._tries_plain
