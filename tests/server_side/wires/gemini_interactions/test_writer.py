"""Events written as a body, and read again."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream import grammar
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
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
    ToolResult,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from tests.dialects.reading import read_answer

NAMED = ResponseMetadata("m", "v1")
SIGNED = {"google": {"signature": "c2ln"}}
FAST = settings(max_examples=60, deadline=None, derandomize=True)


def written(*events):
    encoder = server_side(GeminiInteractions()).event_encoder(Request(model="m"))
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def wire_events(*events):
    frames = [frame.split(b"data: ", 1)[1] for frame in written(*events).split(b"\n\n") if frame]
    return [json.loads(frame) for frame in frames if frame != b"[DONE]"]


def read(body, cuts=()):
    places = sorted(cut % (len(body) + 1) for cut in cuts)
    return read_answer(
        GeminiInteractions().decoder(provider="google"), body, places, provider="google"
    ).events


def test_an_answer_looks_like_the_vendors():
    body = written(NAMED, TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"), Finish("stop"))
    assert body.startswith(b"event: interaction.created\ndata: {")
    assert body.endswith(b"event: done\ndata: [DONE]\n\n")
    kinds = [
        event["event_type"]
        for event in wire_events(NAMED, TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"), Finish("stop"))
    ]
    assert kinds == [
        "interaction.created",
        "interaction.status_update",
        "step.start",
        "step.delta",
        "step.stop",
        "interaction.completed",
    ]


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        (Finish("stop"), "completed"),
        (Finish("tool-calls"), "requires_action"),
        (Finish("tool-calls", raw_finish_reason="completed"), "completed"),
        (Finish("length"), "incomplete"),
        (Finish("content-filter"), "incomplete"),
        (Finish("other"), "cancelled"),
        (Finish("stop", raw_finish_reason="end_turn"), "completed"),
    ],
)
def test_statuses_in_the_vendors_words(finish, status):
    assert wire_events(finish)[-1]["interaction"]["status"] == status


def test_counts_in_the_vendors_words():
    usage = wire_events(Finish("stop", Usage(10, 7, 17, 3, 2)))[-1]["interaction"]["usage"]
    assert usage == {
        "total_tokens": 17,
        "total_input_tokens": 10,
        "total_cached_tokens": 2,
        "total_output_tokens": 4,
        "total_thought_tokens": 3,
    }


def test_an_error_ends_the_stream():
    info = ErrorInfo("rate-limited", "slow down", True)
    assert wire_events(ErrorEvent(info), Finish("error"))[-1] == {
        "event_type": "error",
        "error": {"message": "slow down", "code": "rate_limit_exceeded"},
    }
    assert wire_events(Finish("error"))[-1]["error"]["code"] == "internal_error"


def test_unsupported_events_write_nothing():
    assert written(StreamStart(), Custom("openai.x"), ToolResult("a", "x", "f")) == b""


def test_unstreamed_call_is_written_complete():
    assert read(
        written(ToolCall("f", '{"a":1}', "x"), Finish("tool-calls", raw_finish_reason="requires_action"))
    )[2:6] == [
        ToolInputStart("f", "x"),
        ToolInputDelta('{"a":1}', "x"),
        ToolInputEnd("x"),
        ToolCall("f", '{"a":1}', "x"),
    ]


def test_foreign_vendor_tools_are_renamed():
    call = ToolCall("web_search", "{}", "x", provider_executed=True)
    result = ToolResult([1], "x", "web_search", provider_executed=True)
    mcp = ToolCall("tide", "{}", "y", provider_executed=True, dynamic=True)
    steps = [
        event["step"]["type"]
        for event in wire_events(call, result, mcp)
        if event["event_type"] == "step.start"
    ]
    assert steps == ["web_search_call", "web_search_result", "mcp_server_tool_call"]


def test_sources_without_text_get_a_step():
    page, document = (
        Source("url", "s", "https://a.example", "A"),
        Source("document", "t", None, "D", None, "d.pdf"),
    )
    found = [event for event in read(written(page, document, Finish("stop"))) if isinstance(event, Source)]
    assert [(s.url, s.title, s.filename) for s in found] == [
        ("https://a.example", "A", None),
        (None, "D", "d.pdf"),
    ]


def test_annotations_written_once_in_order():
    """Those of sources with the others at the end of the text, or before its next delta."""
    page = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0}
    again = {"type": "url_citation", "url": "https://a.example", "start_index": 4}
    word = {"type": "word_info", "text": "a"}
    source = Source("url", "source", "https://a.example", "A", provider_metadata={"google": page})
    notes = [word, page, again, word]
    text = [
        TextStart("0"),
        TextDelta("a", "0"),
        source,
        TextEnd("0", provider_metadata={"google": {"annotations": notes}}),
    ]
    thought = [
        ReasoningStart("1"),
        ReasoningDelta("b", "1"),
        ReasoningEnd("1", provider_metadata={"google": {"signature": "c2ln", "annotations": [word]}}),
    ]
    last = Finish("stop", Usage(), "completed", {"google": {"interaction_id": "v1"}})
    told = [event["delta"] for event in wire_events(*text) if event["event_type"] == "step.delta"]
    assert told == [
        {"text": "a", "type": "text"},
        {"annotations": notes, "type": "text_annotation_delta"},
    ]
    whole = [StreamStart(), NAMED, *text, *thought, last]
    assert read(written(*whole)) == whole


def test_source_precedes_the_next_delta():
    page = {"type": "url_citation", "url": "https://a.example", "title": "A"}
    source = Source("url", "source", "https://a.example", "A", provider_metadata={"google": page})
    plain = Source("url", "source.2", "https://b.example")
    events = wire_events(TextStart("0"), source, TextDelta("a", "0"), plain, TextEnd("0"))
    told = [event["delta"] for event in events if event["event_type"] == "step.delta"]
    assert told == [
        {"annotations": [page], "type": "text_annotation_delta"},
        {"text": "a", "type": "text"},
        {
            "annotations": [{"type": "url_citation", "url": "https://b.example"}],
            "type": "text_annotation_delta",
        },
    ]


def test_files_come_back_with_all_fields():
    whole = [
        StreamStart(),
        NAMED,
        File("audio/l16;rate=24000;channels=1", b"hi", {"google": {"uri": "gs://b/c"}}),
        File("image/png", b"hi", {"google": {"resolution": "low", "uri": "gs://b/c"}}),
        File("video/mp4", "gs://b/v", {"google": {"name": "v"}}),
        Custom("google.content.table", {"google": {"rows": [1]}}),
        Finish(
            "length",
            Usage(),
            "budget_exceeded",
            {
                "google": {
                    "interaction_id": "v1",
                    "service_tier": "standard",
                    "environment_id": "env_1",
                    "errors": [{"code": 13}],
                }
            },
        ),
    ]
    events = wire_events(*whole)
    assert next(event["delta"] for event in events if "delta" in event) == {
        "type": "audio",
        "mime_type": "audio/l16",
        "sample_rate": 24000,
        "channels": 1,
        "data": "aGk=",
        "uri": "gs://b/c",
    }
    assert read(written(*whole)) == whole


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
JSON = st.dictionaries(TEXTS, st.integers() | TEXTS | st.lists(st.booleans()), max_size=3)


@st.composite
def sentences(draw):
    """What a decoder of this wire could have said."""
    events = [StreamStart(), NAMED]
    called, used = False, 0
    for number, kind in enumerate(
        draw(
            st.lists(
                st.sampled_from(["text", "thought", "call", "search", "file", "draft", "custom"]), max_size=6
            )
        )
    ):
        block = str(used)
        if kind == "text":
            used += 1
            deltas = draw(st.lists(TEXTS, min_size=1, max_size=3))
            events += [TextStart(block), *(TextDelta(d, block) for d in deltas), TextEnd(block)]
        elif kind == "thought":
            used += 1
            deltas = draw(st.lists(TEXTS, max_size=2))
            signed = draw(st.sampled_from([None, SIGNED]))
            events += [ReasoningStart(block), *(ReasoningDelta(d, block) for d in deltas)]
            events.append(ReasoningEnd(block, provider_metadata=signed))
        elif kind == "call":
            called, name = True, f"call-{number}"
            text = msgspec.json.encode(draw(JSON)).decode()
            half = draw(st.integers(0, len(text)))
            pieces = [piece for piece in (text[:half], text[half:]) if piece]
            signed = draw(st.sampled_from([None, SIGNED]))
            events += [
                ToolInputStart("f", name, provider_metadata=signed),
                *(ToolInputDelta(p, name) for p in pieces),
            ]
            events += [ToolInputEnd(name), ToolCall("f", text, name, provider_metadata=signed)]
        elif kind == "search":
            name, text, tool = f"run-{number}", msgspec.json.encode(draw(JSON)).decode(), "google_search"
            told, found = {"google": {"type": f"{tool}_call"}}, {"google": {"type": f"{tool}_result"}}
            events += [ToolInputStart(tool, name, True, provider_metadata=told), ToolInputDelta(text, name)]
            events += [ToolInputEnd(name), ToolCall(tool, text, name, True, provider_metadata=told)]
            result = [{"title": draw(TEXTS)}]
            events.append(ToolResult(result, name, tool, draw(st.booleans()), False, True, found))
        elif kind == "file":
            events.append(File("image/png", draw(st.binary(min_size=1, max_size=8))))
        elif kind == "draft":
            used += 1
            events += [ReasoningStart(block), ReasoningFile("image/png", b"hi"), ReasoningEnd(block)]
        else:
            events.append(Custom("google.sparkle", {"google": {"glow": draw(st.integers(1, 9))}}))
    status, reason = draw(
        st.sampled_from([("completed", "stop"), ("requires_action", "tool-calls"), ("incomplete", "length")])
    )
    reason = "tool-calls" if called and reason == "stop" else reason
    raw = {"total_input_tokens": 9, "total_output_tokens": 5, "total_thought_tokens": 3, "total_tokens": 17}
    usage = Usage(9, 8, 17, 3, raw=raw)
    return [*events, Finish(reason, usage, status, {"google": {"interaction_id": "v1"}})]


@FAST
@given(sentences(), st.lists(st.integers(0, 10_000), max_size=4))
def test_every_generated_stream_reads_back(sentence, cuts):
    assert grammar.check(sentence) == []
    assert read(written(*sentence), cuts) == sentence


@FAST
@given(sentences(), st.integers(0, 10_000))
def test_what_is_cut_off_stays_a_sentence(sentence, cut):
    body = written(*sentence)
    read(body[: cut % len(body)])
