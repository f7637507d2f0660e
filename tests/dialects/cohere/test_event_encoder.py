"""Answers as Cohere would stream them."""

from __future__ import annotations

import json

import pytest

from llmstream import events as ev
from llmstream.dialects.cohere import Cohere
from llmstream.errors import RateLimited
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def written(*events):
    encoder = server_side(Cohere()).event_encoder(Request(model="m"))
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def said(*events):
    frames = written(*events).split(b"\n\n")
    return [json.loads(frame.split(b"data: ")[1]) for frame in frames if b"data: {" in frame]


def kinds(*events):
    return [event["type"] for event in said(*events)]


def test_an_answer_event_by_event():
    body = written(
        ev.StreamStart(),
        ev.ResponseMetadata(id="m-7"),
        ev.TextStart("0"),
        ev.TextDelta("Hello", "0"),
        ev.TextEnd("0"),
        ev.Finish("stop", ev.Usage(3, 4, cached_input_tokens=2)),
    )
    start = b'event: message-start\ndata: {"id":"m-7","type":"message-start","delta":{"message":{"role":'
    assert body.startswith(start)
    assert body.endswith(
        b'event: content-start\ndata: {"type":"content-start","index":0,'
        b'"delta":{"message":{"content":{"type":"text","text":""}}}}\n\n'
        b'event: content-delta\ndata: {"type":"content-delta","index":0,'
        b'"delta":{"message":{"content":{"text":"Hello"}}}}\n\n'
        b'event: content-end\ndata: {"type":"content-end","index":0}\n\n'
        b'event: message-end\ndata: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":'
        b'{"billed_units":{"input_tokens":3,"output_tokens":4},"tokens":{"input_tokens":3,"output_tokens":4},'
        b'"cached_tokens":2}}}\n\n'
        b"data: [DONE]\n\n"
    )


def test_a_tool_plan_is_written_as_such():
    plan = ev.ReasoningStart("0", {"cohere": {"tool_plan": True}})
    assert kinds(plan, ev.ReasoningDelta("I will", "0"), ev.ReasoningEnd("0")) == [
        "message-start",
        "tool-plan-delta",
    ]


def test_other_reasoning_is_thinking():
    events = [ev.ReasoningStart("0"), ev.ReasoningDelta("Hm", "0"), ev.ReasoningEnd("0")]
    assert kinds(*events)[1:] == ["content-start", "content-delta", "content-end"]
    assert said(*events)[2]["delta"]["message"]["content"] == {"thinking": "Hm"}


def test_calls_have_indices_of_their_own():
    body = said(
        ev.TextStart("0"),
        ev.TextEnd("0"),
        ev.ToolInputStart("f", "a"),
        ev.ToolInputDelta("{}", "a"),
        ev.ToolInputEnd("a"),
        ev.ToolCall("f", "{}", "a"),
        ev.ToolCall("g", '{"x":1}', "b"),
    )
    assert [(event["type"], event["index"]) for event in body[1:]] == [
        ("content-start", 0),
        ("content-end", 0),
        ("tool-call-start", 0),
        ("tool-call-delta", 0),
        ("tool-call-end", 0),
        ("tool-call-start", 1),
        ("tool-call-delta", 1),
        ("tool-call-end", 1),
    ]


def test_unsupported_events_write_nothing():
    assert (
        written(
            ev.ToolInputStart("search", "a", provider_executed=True),
            ev.ToolInputDelta("{}", "a"),
            ev.ToolInputEnd("a"),
            ev.ToolCall("search", "{}", "a", provider_executed=True),
            ev.File("image/png", b"\x01"),
            ev.Custom("openai.thing", {"openai": {}}),
            ev.TextDelta("of no block", "9"),
            ev.TextEnd("9"),
        )
        == b""
    )


def test_foreign_source_becomes_a_citation(decode):
    source = ev.Source("url", "s-1", "https://x.example", "X")
    body = written(ev.TextStart("0"), source, ev.TextEnd("0"), ev.Finish("stop"))
    (read,) = [event for event in decode(body) if isinstance(event, ev.Source)]
    assert (read.url, read.title) == ("https://x.example", "X")


@pytest.mark.parametrize(
    ("finish", "raw"),
    [
        (ev.Finish("stop", raw_finish_reason="end_turn"), "COMPLETE"),
        (ev.Finish("stop", raw_finish_reason="STOP_SEQUENCE"), "STOP_SEQUENCE"),
        (ev.Finish("tool-calls", raw_finish_reason="COMPLETE"), "COMPLETE"),
        (ev.Finish("tool-calls"), "TOOL_CALL"),
        (ev.Finish("length"), "MAX_TOKENS"),
        (ev.Finish("content-filter"), "ERROR_TOXIC"),
        (ev.Finish("unknown"), None),
    ],
)
def test_reasons(finish, raw):
    assert said(finish)[-1]["delta"].get("finish_reason") == raw


def test_error_ends_the_response(decode):
    body = written(
        ev.TextStart("0"),
        ev.TextDelta("x", "0"),
        ev.TextEnd("0", incomplete=True),
        ev.ErrorEvent(RateLimited("slow down", status=429).info),
        ev.Finish("error"),
    )
    (error,) = [event.error for event in decode(body) if isinstance(event, ev.ErrorEvent)]
    assert error.message == "slow down"
    assert decode(written(ev.Finish("error")))[-1].finish_reason == "error"
