"""Events to JSON and back, and what their JSON looks like."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmstream as ls
from llmstream import events as ev
from llmstream.events import Event, decode, encode

META = {"acme": {"signature": "c2ln", "nested": {"a": [1, None]}}}
INFO = ev.ErrorInfo(
    "rate-limited", "slow down", True, "acme", 429, retry_after_s=1.5, request_id="r", reason="tpm"
)
WARNINGS: list[ev.Warning] = [
    ev.UnsupportedSetting("top_k", "not here"),
    ev.UnsupportedTool("search"),
    ev.OtherWarning("shortened"),
]
USAGE = ev.Usage(10, 20, 30, 5, 4, 3, {"vendor": 1})

EVERY_EVENT: list[Event] = [
    ev.StreamStart(WARNINGS),
    ev.ResponseMetadata("m", "id", datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), META),
    ev.TextStart("0", META),
    ev.TextDelta("é\u2028\U0001f600", "0", META),
    ev.TextEnd("0", True, META),
    ev.ReasoningStart("1"),
    ev.ReasoningDelta("hm", "1"),
    ev.ReasoningEnd("1", provider_metadata=META),
    ev.ToolInputStart("f", "c", True, True, "Title", META),
    ev.ToolInputDelta('{"a"', "c"),
    ev.ToolInputEnd("c", True),
    ev.ToolCall("f", '{"a":1}', "c", True, True, True, META),
    ev.ToolResult({"a": [1.5, None, "x"]}, "c", "f", True, True, True, META),
    ev.ToolApprovalRequest("c", "a", META),
    ev.Source("url", "s", "https://a.example", "A", "text/html", "a.html", META),
    ev.File("image/png", b"\x89PNG\x00", META),
    ev.File("image/png", "https://a.example/x.png"),
    ev.ReasoningFile("image/png", b""),
    ev.Custom("acme.thing", META),
    ev.Finish("tool-calls", USAGE, "tool_use", META),
    ev.ErrorEvent(INFO),
    ev.Raw({"anything": [True]}),
    ev.StepStart(3),
    ev.StepStart(3, [ev.OtherWarning("left out")]),
    ev.StepFinish(3, "stop", USAGE, ev.Timings(0.1, 0.2, 0.3)),
    ev.RetryNotice("connection lost", 3, 2, 0.5),
]


def test_list_above_holds_every_event() -> None:
    assert {type(e) for e in EVERY_EVENT} == set(get_args(Event))


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda e: type(e).__name__)
def test_events_round_trip_through_json(event: Event) -> None:
    data = encode(event)
    assert decode(data) == event
    assert encode(decode(data)) == data


def test_camel_case_keys_defaults_omitted() -> None:
    assert json.loads(encode(ev.TextDelta("Hi", "0"))) == {"type": "text-delta", "delta": "Hi", "id": "0"}
    assert json.loads(encode(ev.ToolCall("f", "{}", "c", provider_executed=True))) == {
        "type": "tool-call",
        "toolName": "f",
        "input": "{}",
        "toolCallId": "c",
        "providerExecuted": True,
    }
    assert json.loads(encode(ev.Finish("stop", ev.Usage(1, 2), "end_turn"))) == {
        "type": "finish",
        "finishReason": "stop",
        "usage": {"inputTokens": 1, "outputTokens": 2},
        "rawFinishReason": "end_turn",
    }


def test_required_fields_are_always_written() -> None:
    assert json.loads(encode(ev.StreamStart())) == {"type": "stream-start", "warnings": []}
    error = json.loads(encode(ev.ErrorEvent(ev.ErrorInfo("a", "b", False))))["error"]
    assert error == {"code": "a", "message": "b", "retryable": False}


def test_events_match_by_position() -> None:
    match ev.TextDelta("Hi", "0"):
        case ev.TextDelta(text):
            assert text == "Hi"
    match ev.ToolCall("search", '{"q":1}', "c1"):
        case ev.ToolCall(name, args):
            assert (name, args) == ("search", '{"q":1}')
    match ev.Finish("stop", USAGE):
        case ev.Finish(reason, usage):
            assert (reason, usage) == ("stop", USAGE)


def test_events_are_frozen() -> None:
    with pytest.raises(AttributeError):
        ev.TextDelta("a", "0").delta = "b"  # type: ignore[misc]  # that is the point


def test_keys_of_a_later_version_are_ignored() -> None:
    assert decode(b'{"type":"text-end","id":"0","someday":1}') == ev.TextEnd("0")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"type":"nothing-of-ours"}', b'{"type":"text-delta"}', b"[" * 100_000]
)
def test_what_is_no_event_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(ls.DecodeError, match="not an event"):
        decode(data)


def test_invalid_base64_is_a_decode_error() -> None:
    with pytest.raises(ls.DecodeError):
        decode(b'{"type":"file","mediaType":"image/png","data":"***"}')


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), st.text(), _json, st.binary())
def test_any_values_survive(text: str, name: str, value: object, data: bytes) -> None:
    events: list[Event] = [
        ev.TextDelta(text, name),
        ev.ToolResult(value, name, text),
        ev.Raw(value),
        ev.File(text, data),
    ]
    for event in events:
        assert decode(encode(event)) == event


def test_events_cost_no_more_than_msgspec() -> None:
    code = (
        "import sys, llmstream.events; "
        "heavy = ('aiohttp', 'anyio', 'asyncio', 'llmstream.chats', 'llmstream.dialects'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("error", "message", "retryable"),
    [
        ('"overloaded"', "overloaded", False),
        ('{"message":"busy","statusCode":503,"isRetryable":true}', "busy", True),
        ('{"name":"AbortError"}', '{"name":"AbortError"}', False),
        ("null", "null", False),
        ("[1]", "[1]", False),
    ],
)
def test_an_error_of_any_value_is_read(error, message, retryable) -> None:
    event = decode(f'{{"type":"error","error":{error}}}')
    assert isinstance(event, ev.ErrorEvent)
    assert (event.error.message, event.error.retryable, event.error.code) == (message, retryable, "error")
    assert decode(encode(event)) == event


def test_warning_with_tool_reads_as_its_name() -> None:
    """The warning holds the complete tool."""
    tool = '{"type":"function","name":"look","inputSchema":{"type":"object"}}'
    hosted = '{"type":"provider-defined","id":"acme.search","args":{}}'
    kind = '"type":"unsupported-tool"'
    text = f'{{{kind},"tool":{tool},"details":"no"}},{{{kind},"tool":{hosted}}}'
    event = decode(f'{{"type":"stream-start","warnings":[{text}]}}')
    assert event == ev.StreamStart([ev.UnsupportedTool("look", "no"), ev.UnsupportedTool("acme.search")])


@pytest.mark.parametrize(
    "text", ['{"type":"error"}', '{"type":"stream-start","warnings":[5]}', "[]", "5", "{"]
)
def test_what_is_of_no_form_stays_an_error(text) -> None:
    with pytest.raises(ls.DecodeError):
        decode(text)
