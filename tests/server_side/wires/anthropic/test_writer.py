"""Events as the vendor's stream."""

from __future__ import annotations

import json

from llmstream.dialects.anthropic import Anthropic
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Finish,
    Raw,
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
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.anthropic.writer import AnthropicShapes
from llmstream.server_side.wires.event_writer import EventWriter


def write(*events):
    encoder = EventWriter(AnthropicShapes("m", new_id=lambda: "msg_new"))
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def wire(*events):
    return [json.loads(frame.split(b"data: ", 1)[1]) for frame in write(*events).split(b"\n\n") if frame]


def types(*events):
    return [event["type"] for event in wire(*events)]


TEXT = (TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"))


def test_a_stream_looks_like_the_vendors():
    assert write(
        StreamStart(),
        ResponseMetadata("claude-x", "msg_1"),
        *TEXT,
        Finish("stop", Usage(3, 4, 7), "end_turn"),
    ) == (
        b"event: message_start\n"
        b'data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",'
        b'"model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,'
        b'"usage":{"input_tokens":0,"output_tokens":0}}}\n\n'
        b"event: content_block_start\n"
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
        b'event: ping\ndata: {"type":"ping"}\n\n'
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b"event: message_delta\n"
        b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        b'"usage":{"input_tokens":3,"output_tokens":4}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )


def test_the_message_begins_by_itself():
    start = wire(*TEXT)[0]
    assert (start["message"]["id"], start["message"]["model"]) == ("msg_new", "m")


def test_usage_has_the_vendors_meaning():
    usage = Usage(100, 20, 120, reasoning_tokens=5, cached_input_tokens=60, cache_write_tokens=10)
    assert wire(Finish("stop", usage))[1]["usage"] == {
        "input_tokens": 30,
        "output_tokens": 20,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 60,
        "output_tokens_details": {"thinking_tokens": 5},
    }


def test_foreign_reasons_are_translated():
    reasons = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool-calls": "tool_use",
        "content-filter": "refusal",
    }
    for ours, theirs in reasons.items():
        assert wire(Finish(ours, raw_finish_reason="STOP"))[1]["delta"]["stop_reason"] == theirs
    assert wire(Finish("unknown"))[1]["delta"]["stop_reason"] is None
    assert wire(Finish("other", raw_finish_reason="pause_turn"))[1]["delta"]["stop_reason"] == "pause_turn"
    assert wire(Finish("tool-calls", raw_finish_reason="end_turn"))[1]["delta"]["stop_reason"] == "end_turn"


def test_unstreamed_call_is_written_complete():
    assert types(ToolCall("f", '{"a":1}', "t1")) == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
    ]


def test_empty_call_has_an_empty_fragment():
    events = wire(ToolInputStart("f", "t1"), ToolInputEnd("t1"), ToolCall("f", "{}", "t1"))
    assert events[3]["delta"] == {"type": "input_json_delta", "partial_json": ""}
    assert len(events) == 5


def test_a_block_that_broke_off_gets_no_stop():
    assert "content_block_stop" not in types(TextStart("0"), TextEnd("0", incomplete=True))


def test_signatures_are_told_before_the_stop():
    events = wire(ReasoningStart("0"), ReasoningEnd("0", provider_metadata={"anthropic": {"signature": "s"}}))
    assert events[3]["delta"] == {"type": "signature_delta", "signature": "s"}


def test_citations_are_told_once():
    citation = {"type": "page_location", "document_title": "a.pdf"}
    told = {"anthropic": {"citations": [citation]}}
    with_source = wire(
        TextStart("0"),
        Source("document", "source-1", title="a.pdf", provider_metadata={"anthropic": citation}),
        TextEnd("0", provider_metadata=told),
    )
    without = wire(TextStart("0"), TextEnd("0", provider_metadata=told))
    assert [e["delta"]["citation"] for e in with_source if "delta" in e] == [citation]
    assert with_source == without


def test_an_error_ends_the_writing():
    info = ErrorInfo("overloaded", "busy", True, request_id="req_1")
    events = wire(*TEXT, ErrorEvent(info), *TEXT, Finish("error"))
    assert events[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "busy"},
        "request_id": "req_1",
    }
    assert [event["type"] for event in events].count("content_block_start") == 1


def test_error_finish_alone_is_an_error():
    assert types(Finish("error")) == ["error"]


def test_unsupported_events_write_nothing():
    assert write(
        StreamStart(),
        Raw({}),
        File("image/png", b"x"),
        Custom("openai.thing"),
        ToolResult("r", "t1", "f"),
        Source("url", "s", "https://a.example"),
    ) == (b"")


def test_foreign_tool_error_is_marked():
    (_, start, *_) = wire(ToolResult("boom", "t1", "search", is_error=True, provider_executed=True))
    assert start["content_block"] == {
        "type": "search_tool_result",
        "tool_use_id": "t1",
        "content": "boom",
        "is_error": True,
    }


def test_dialect_makes_a_request_encoder():
    assert b'"model":"asked"' in server_side(Anthropic()).event_encoder(Request(model="asked")).feed(
        TextStart("0")
    )


def test_reasoning_estimates_written_once():
    told = {"anthropic": {"estimated_tokens": 64}}
    ended = {"anthropic": {"estimated_tokens": 96, "signature": "sig"}}
    events = wire(ReasoningStart("0"), ReasoningDelta("Hm", "0", told), ReasoningEnd("0", False, ended))
    assert [event["delta"] for event in events if event["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "Hm", "estimated_tokens": 64},
        {"type": "thinking_delta", "thinking": "", "estimated_tokens": 32},
        {"type": "signature_delta", "signature": "sig"},
    ]


def test_input_transformations_on_last_delta():
    told = {"input_transformations": [{"type": "thinking_dropped", "path": "messages.1.content.0"}]}
    (last,) = [e for e in wire(*TEXT, Finish("stop", provider_metadata={"anthropic": told})) if "delta" in e][
        -1:
    ]
    assert last["input_transformations"] == told["input_transformations"]
