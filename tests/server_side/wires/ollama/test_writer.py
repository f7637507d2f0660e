"""Events to lines and back: what the wire can express survives, at any cut."""

from __future__ import annotations

import datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmstream import grammar
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.ollama import Ollama
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda v: st.lists(v) | st.dictionaries(TEXT, v),
    max_leaves=6,
)
COUNTS = st.none() | st.integers(0, 10**6)
WHEN = datetime.datetime(2026, 1, 5, 10, 0, 0, 123456, tzinfo=datetime.UTC)


@st.composite
def sentences(draw: st.DrawFn) -> list[Event]:
    """Whole sentences that Ollama's wire can express."""
    events: list[Event] = [
        StreamStart(),
        ResponseMetadata("tiny:1b", timestamp=draw(st.none() | st.just(WHEN))),
    ]
    blocks, calls, last = 0, 0, ""
    for kind in draw(st.lists(st.sampled_from(["text", "reasoning", "call"]), max_size=6)):
        if kind == "call":
            calls += 1
            call_id = f"c{calls}"
            text = msgspec.json.encode(draw(st.dictionaries(TEXT, JSON, max_size=3))).decode()
            events += [ToolInputStart("f", call_id), ToolInputDelta(text, call_id), ToolInputEnd(call_id)]
            events.append(ToolCall("f", text, call_id))
        elif kind != last:
            deltas = draw(st.lists(TEXT, min_size=1, max_size=4))
            events += _block(kind, str(blocks), deltas)
            blocks += 1
        last = kind
    return [*events, _finish(draw, calls > 0)]


def _block(kind: str, block_id: str, deltas: list[str]) -> list[Event]:
    if kind == "text":
        return [TextStart(block_id), *[TextDelta(d, block_id) for d in deltas], TextEnd(block_id)]
    return [ReasoningStart(block_id), *[ReasoningDelta(d, block_id) for d in deltas], ReasoningEnd(block_id)]


def _finish(draw: st.DrawFn, called: bool) -> Event:
    given_tokens, made = draw(COUNTS), draw(COUNTS)
    raw = {"prompt_eval_count": given_tokens, "eval_count": made}
    raw = {name: count for name, count in raw.items() if count is not None}
    total = given_tokens + made if given_tokens is not None and made is not None else None
    usage = Usage(given_tokens, made, total, raw=raw or None)
    if called:
        return draw(st.sampled_from([Finish("tool-calls", usage, "stop"), Finish("length", usage, "length")]))
    reasons = [("stop", "stop"), ("length", "length"), ("other", "load"), ("unknown", None)]
    reason, said = draw(st.sampled_from(reasons))
    return Finish(reason, usage, said)  # type: ignore[arg-type]


def write(events: list[Event]) -> bytes:
    encoder = server_side(Ollama()).event_encoder(Request(model="tiny:1b"))
    return b"".join([encoder.feed(event) for event in events]) + encoder.close()


def read(*chunks: bytes) -> list[Event]:
    sentence = GuardedDecoder(Ollama().decoder(provider="ollama"), provider="ollama")
    events = sentence.start()
    for chunk in chunks:
        events += sentence.feed(chunk)
    return events + sentence.close()


@given(events=sentences(), data=st.data())
def test_events_survive_the_wire_at_any_cut(events: list[Event], data: st.DataObject) -> None:
    assert not grammar.check(events)
    body = write(events)
    cut = data.draw(st.integers(0, len(body)))
    assert read(body[:cut], body[cut:]) == events


def test_every_line_is_one_line() -> None:
    body = write([ToolCall("f", '{\n  "a": 1.50\n}', "c"), Finish("tool-calls")])
    assert body.count(b"\n") == 2
    call = next(e for e in read(body) if isinstance(e, ToolCall))
    assert call.input == '{"a":1.50}'


def test_an_error_ends_the_lines() -> None:
    error = error_from_value({"error": "the runner died"}, provider="ollama")
    events = [
        TextStart("0"),
        TextDelta("Half", "0"),
        TextEnd("0", True),
        ErrorEvent(error.info),
        Finish("error"),
    ]
    assert write(events).splitlines()[-1] == b'{"error":"the runner died"}'
    assert read(write(events))[-4:] == events[-4:]
    assert write([*events[:-1]]).splitlines()[-1] == b'{"error":"the runner died"}'


def test_nonfatal_error_is_not_written() -> None:
    error = error_from_value({"error": "a bad line"}, provider="ollama")
    assert b"error" not in write([ErrorEvent(error.info), TextDelta("on", "0"), Finish("stop")])


def test_foreign_reasons_are_translated() -> None:
    assert b'"done_reason":"stop"' in write([Finish("stop", Usage(), "end_turn")])
    assert b'"done_reason":"stop"' in write([Finish("content-filter", Usage(), "refusal")])
    called = write([ToolCall("f", "{}", "c"), Finish("tool-calls")])
    assert b'"done_reason":"stop"' in called  # as the daemon says it
    assert b"done_reason" not in write([Finish("unknown", Usage(), "whatever")])


def test_unsupported_events_write_nothing() -> None:
    assert write([Source("url", "s", "https://example.org"), TextDelta("", "0")]) == b""
    assert write([ToolCall("web", "{}", "c", provider_executed=True)]) == b""
