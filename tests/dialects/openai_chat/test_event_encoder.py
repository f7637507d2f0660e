"""Events as chunks, and the same events out of them again."""

from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks
from llmstream.errors import (
    BadRequest,
    ErrorInfo,
    NotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerError,
)
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
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
    ToolResult,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side

NAMES = ResponseMetadata("m", "chatcmpl-9", datetime.datetime.fromtimestamp(1700000000, datetime.UTC))
REQUEST = Request(model="m", messages=(Message.user("hi"),))


def write(events, quirks=Quirks(), request=REQUEST):
    encoder = server_side(OpenAIChat(quirks)).event_encoder(request)
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def chunks(body):
    return [json.loads(frame[6:]) for frame in body.split(b"\n\n") if frame and not frame.endswith(b"[DONE]")]


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
counts = st.integers(0, 10_000)


@st.composite
def answers(draw):
    """Sentences this wire can express: blocks that alternate, then calls, then finish with usage."""
    out = [StreamStart(), NAMES]
    thinks = draw(st.booleans())
    for number in range(draw(st.integers(0, 4))):
        start, delta, end = (
            (ReasoningStart, ReasoningDelta, ReasoningEnd) if thinks else (TextStart, TextDelta, TextEnd)
        )
        out.append(start(str(number)))
        out += [delta(piece, str(number)) for piece in draw(st.lists(words, min_size=1, max_size=4))]
        out.append(end(str(number)))
        thinks = not thinks
    calls = draw(st.integers(0, 3))
    for number in range(calls):
        call_id, name = f"call_{number}", draw(st.sampled_from(["search", "f"]))
        whole = json.dumps({"v": draw(words)}, ensure_ascii=draw(st.booleans()))
        cut = draw(st.integers(1, len(whole) - 1))
        out.append(ToolInputStart(name, call_id))
        out += [ToolInputDelta(part, call_id) for part in (whole[:cut], whole[cut:])]
        out += [ToolInputEnd(call_id), ToolCall(name, whole, call_id)]
    prompt, reasoning, rest = draw(counts), draw(counts), draw(counts)
    completion = reasoning + rest
    raw = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    usage = Usage(prompt, completion, prompt + completion, reasoning, raw=raw)
    reason = "tool-calls" if calls else draw(st.sampled_from(["stop", "length", "content-filter"]))
    sent = {"tool-calls": "tool_calls", "content-filter": "content_filter"}.get(reason, reason)
    return [*out, Finish(reason, usage, sent)]


@given(answers(), st.data())
def test_events_survive_the_wire_at_any_cut(wire, events, data):
    body = write(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    assert wire.read(body, cuts=cuts).events == events


def test_a_stream_looks_like_openais():
    events = [
        StreamStart(), NAMES, TextStart("0"), TextDelta("hi", "0"), TextEnd("0"),
        ToolInputStart("f", "c1"), ToolInputDelta("{}", "c1"), ToolInputEnd("c1"), ToolCall("f", "{}", "c1"),
        Finish("tool-calls", Usage(1, 2)),
    ]  # fmt: skip
    body = write(events)
    assert body.endswith(b"data: [DONE]\n\n")
    all_chunks = chunks(body)
    assert {c["object"] for c in all_chunks} == {"chat.completion.chunk"}
    assert {c["id"] for c in all_chunks} == {"chatcmpl-9"}
    assert [c["choices"][0]["delta"] for c in all_chunks[:-1]] == [
        {"role": "assistant", "content": ""},
        {"content": "hi"},
        {
            "tool_calls": [
                {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert all_chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert all_chunks[-1]["choices"] == []
    assert all_chunks[-1]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize(
    ("options", "there"), [({}, True), ({"stream_options": {"include_usage": False}}, False)]
)
def test_usage_comes_where_the_client_asked(options, there):
    request = Request(model="m", messages=REQUEST.messages, provider_options={"openai": options})
    body = write([StreamStart(), NAMES, Finish("stop", Usage(1, 2))], request=request)
    assert (b'"usage"' in body) == there


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("none", "reasoning_content"),
        ("reasoning", "reasoning"),
        ("reasoning_details", "reasoning"),
        ("reasoning_text", "reasoning_text"),
    ],
)
def test_reasoning_uses_the_vendors_field(field, name):
    events = [NAMES, ReasoningStart("0"), ReasoningDelta("hm", "0"), ReasoningEnd("0"), Finish("stop")]
    assert chunks(write(events, Quirks(reasoning=ReasoningQuirks(field=field))))[1]["choices"][0][
        "delta"
    ] == {name: "hm"}


def test_what_vendors_want_back_survives(wire):
    detail = {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}
    kept = {"acme": {"reasoning_details": [detail]}}
    late = {"acme": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}}
    extra = {"acme": {"extra_content": {"google": {"thought_signature": "s"}}}}
    events = [
        StreamStart(), NAMES,
        ReasoningStart("0"), ReasoningDelta("hm", "0"), ReasoningEnd("0", provider_metadata=kept),
        ToolInputStart("f", "c1"), ToolInputDelta('{"x":1}', "c1"), ToolInputEnd("c1"),
        ToolCall("f", '{"x":1}', "c1", provider_metadata=extra),
        Custom("acme.reasoning_details", late),
        Finish("tool-calls", raw_finish_reason="tool_calls"),
    ]  # fmt: skip
    quirks = Quirks(reasoning=ReasoningQuirks(field="reasoning_details"))
    answer = wire.read(write(events, quirks), quirks)
    assert answer.reasoning == "hm"
    assert answer.of(ReasoningEnd)[0].provider_metadata == kept
    assert answer.of(Custom)[0].provider_metadata == late
    assert answer.of(ToolCall)[0].provider_metadata == extra


def test_sources_and_files_survive(wire):
    cited = {"acme": {"start_index": 0, "end_index": 9, "content": "It says so."}}
    beside = [
        Source("url", "source-1", "https://a.example", "A"),
        Source("url", "source-2", "https://b.example", provider_metadata=cited),
        File("image/png", b"\1\2\3"),
        File("audio/wav", b"RIFF\0\0", {"acme": {"audio_id": "au_1", "audio_expires_at": 1790000000}}),
    ]
    answer = wire.read(write([NAMES, *beside, Finish("stop")]))
    assert answer.of(Source) + answer.of(File) == beside


@pytest.mark.parametrize(("text", "more"), [("SELECT 1", {}), ("{}", {"input": ""})])
def test_unstreamed_custom_call_is_written(wire, text, more):
    call = ToolCall("sql", text, "c1", provider_metadata={"acme": {"type": "custom_tool_call", **more}})
    body = write([NAMES, call, Finish("tool-calls")])
    fragment = chunks(body)[1]["choices"][0]["delta"]["tool_calls"][0]
    assert fragment["custom"] == {"name": "sql", "input": more.get("input", text)}
    assert wire.read(body).of(ToolCall) == [call]


def test_unstreamed_call_input_is_written(wire):
    answer = wire.read(write([NAMES, ToolCall("f", '{"x":1}', "c1"), Finish("tool-calls")]))
    assert (answer.calls, answer.ids) == ([("f", '{"x":1}')], ["c1"])


def test_vendor_tool_calls_are_not_written():
    events = [
        ToolInputStart("s", "p", provider_executed=True),
        ToolInputDelta("{}", "p"),
        ToolCall("s", "{}", "p", provider_executed=True),
        ToolResult(1, "p", "s", provider_executed=True),
    ]
    assert write(events) == b""


@pytest.mark.parametrize("kind", [BadRequest, RateLimited, Overloaded, NotFound, ServerError])
def test_error_event_survives_with_its_class(wire, kind):
    info = kind("it failed", provider="acme").info
    answer = wire.read(
        write([StreamStart(), NAMES, TextStart("0"), TextDelta("a", "0"), ErrorEvent(info), Finish("error")])
    )
    (error,) = answer.of(ErrorEvent)
    assert (error.error.code, error.error.message, error.error.retryable) == (
        kind.code,
        "it failed",
        info.retryable,
    )
    assert answer.text == "a"
    assert answer.finish.finish_reason == "error"


def test_failure_finish_reason_survives(wire):
    first = wire.answer("a", wire.chunk({}, "network_error"))
    assert wire.read(write(first.events)).finish.raw_finish_reason == "network_error"


def test_a_stream_without_a_reason_stays_one(wire):
    answer = wire.read(
        write([StreamStart(), NAMES, TextStart("0"), TextDelta("a", "0"), TextEnd("0"), Finish("unknown")])
    )
    assert answer.finish.finish_reason == "unknown"


@pytest.mark.parametrize("kind", [BadRequest, RateLimited, Overloaded, NotFound, ServerError])
def test_error_response_survives_with_class(kind):
    dialect = OpenAIChat()
    error = kind("no", provider="acme", retry_after_s=3, request_id="req_1")
    answer = server_side(dialect).encode_error(error.info)
    again = dialect.decode_error(answer.status, answer.headers, answer.body, provider="acme")
    assert isinstance(again, ProviderError)
    assert (type(again), again.message, again.retry_after_s, again.request_id) == (kind, "no", 3, "req_1")


def test_own_error_is_a_server_error():
    assert server_side(OpenAIChat()).encode_error(ErrorInfo("stream-error", "broke", False)).status == 500
