"""The message around the blocks: how it starts, is counted, ends and fails."""

from __future__ import annotations

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.events import ErrorEvent, Finish, Raw, ResponseMetadata, TextDelta, TextEnd, ToolCall, Usage


def block(index, **fields):
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def reason(stop_reason, usage=None):
    return {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage}


END = {"type": "message_stop"}
PING = {"type": "ping"}
TEXT = (block(0, type="text", text=""), delta(0, "text_delta", text="Hi"), stop(0))
CALL = (
    block(1, type="tool_use", id="toolu_1", name="f", input={}),
    delta(1, "input_json_delta", partial_json="{}"),
    stop(1),
)


def errors(events):
    return [event.error for event in events if isinstance(event, ErrorEvent)]


def codes(events):
    return [error.code for error in errors(events)]


# complete or not


@pytest.mark.parametrize(
    ("tail", "finish_reason", "code"),
    [
        ((reason("end_turn"), END), "stop", None),
        ((END,), "unknown", None),
        ((reason("end_turn"),), "stop", None),
        (({"type": "error", "error": {"type": "api_error", "message": "m"}},), "error", "server-error"),
        (
            ({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}},),
            "error",
            "bad-request",
        ),
        ((), "error", "incomplete-stream"),
    ],
)
def test_how_a_stream_ends(tail, finish_reason, code, decode, stream):
    events = decode(stream(*TEXT, *tail))
    assert events[-1].finish_reason == finish_reason
    assert codes(events) == ([code] if code else [])


def test_finish_is_held_until_message_stop(stream):
    from llmstream.dialects.anthropic import Anthropic

    decoder = Anthropic().decoder(provider="anthropic")
    events = decoder.feed(stream(*TEXT, reason("end_turn")))
    assert decoder.complete
    assert not decoder.done
    assert not any(isinstance(event, Finish) for event in events)
    assert isinstance(decoder.feed(stream(END, begin=False))[-1], Finish)
    assert decoder.done


def test_end_before_a_start_is_incomplete(decode, stream):
    events = decode(stream(END, begin=False))
    assert events[-1].finish_reason == "error"
    assert codes(events) == ["incomplete-stream"]


def test_events_after_message_stop_ignored(decode, stream):
    events = decode(stream(*TEXT, reason("end_turn"), END, *CALL, reason("tool_use"), END))
    assert events[-1].finish_reason == "stop"
    assert not any(isinstance(event, ToolCall) for event in events)


def test_done_mark_after_end_is_no_defect(decode, stream):
    assert codes(decode(stream(*TEXT, reason("end_turn")) + b"data: [DONE]\n\n")) == []


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("pause_turn", "other"),
        ("compaction", "other"),
        ("invented_later", "other"),
    ],
)
def test_finish_reasons(raw, meant, decode, stream):
    finish = decode(stream(*TEXT, reason(raw), END))[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == (meant, raw)


@pytest.mark.parametrize("raw", ["end_turn", "something_new", None])
def test_open_calls_finish_as_tool_calls(raw, decode, stream):
    finish = decode(stream(*TEXT, *CALL, reason(raw), END))[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == ("tool-calls", raw)


def test_calls_that_the_vendor_ran_do_not(decode, stream):
    call = (block(1, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}), stop(1))
    assert decode(stream(*TEXT, *call, reason("end_turn"), END))[-1].finish_reason == "stop"


def test_refusal_without_content_is_complete(decode, stream):
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    last = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    finish = decode(stream(last, END))[-1]
    assert finish.finish_reason == "content-filter"
    assert finish.provider_metadata == {"anthropic": {"stop_details": details}}


# start


def test_a_ping_may_come_first_and_anywhere(decode, stream):
    plain = decode(stream(*TEXT, reason("end_turn"), END))
    pinged = stream(PING, begin=False) + stream(PING, TEXT[0], PING, *TEXT[1:], PING, reason("end_turn"), END)
    assert decode(pinged) == plain


def test_duplicate_message_start_is_ignored(decode, stream):
    again = {"type": "message_start", "message": {"id": "msg_1", "model": "m"}}
    events = decode(stream(again, *TEXT, again, reason("end_turn"), END))
    assert [type(event) for event in events].count(ResponseMetadata) == 1
    assert codes(events) == []


def test_message_within_message_is_an_error(decode, stream):
    other = {"type": "message_start", "message": {"id": "msg_2", "model": "m"}}
    events = decode(stream(*TEXT, other, *CALL, reason("tool_use"), END))
    assert codes(events) == ["protocol-error"]
    assert not any(isinstance(event, ToolCall) for event in events)


def test_calls_in_message_start_are_calls(decode, stream):
    call = {"type": "tool_use", "id": "toolu_9", "name": "roll", "input": {"sides": 6}}
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [call]}}
    events = decode(stream(start, reason("tool_use"), END, begin=False))
    assert [(e.tool_name, e.input) for e in events if isinstance(e, ToolCall)] == [("roll", '{"sides":6}')]


@pytest.mark.parametrize(("raw", "meant"), [("end_turn", "stop"), ("max_tokens", "length")])
def test_message_start_may_hold_stop_reason(raw, meant, decode, stream):
    content = [{"type": "text", "text": "Hi"}]
    message = {"id": "msg_1", "model": "m", "content": content, "stop_reason": raw}
    finish = decode(stream({"type": "message_start", "message": message}, END, begin=False))[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == (meant, raw)


# usage


def usage_of(*usages, decode, stream):
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": usages[0]}}
    rest = [reason("end_turn", usage) for usage in usages[1:]]
    return decode(stream(start, *TEXT, *rest, END, begin=False))[-1].usage


def test_usage_is_cumulative_across_events(decode, stream):
    first = {
        "input_tokens": 10,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "output_tokens": 1,
    }
    usage = usage_of(first, {"output_tokens": 7}, {"output_tokens": 9}, decode=decode, stream=stream)
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (17, 9, 26)
    assert (usage.cached_input_tokens, usage.cache_write_tokens) == (5, 2)
    assert usage.raw == {**first, "output_tokens": 9}


def test_a_later_event_may_change_the_input(decode, stream):
    usage = usage_of(
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": 61, "output_tokens": 2},
        decode=decode,
        stream=stream,
    )
    assert (usage.input_tokens, usage.output_tokens) == (61, 2)


def test_nulls_erase_no_count(decode, stream):
    first = {"input_tokens": 4, "output_tokens": 1}
    usage = usage_of(first, {"input_tokens": None, "output_tokens": 3}, decode=decode, stream=stream)
    assert (usage.input_tokens, usage.output_tokens) == (4, 3)


def test_compaction_counts_all_iterations(decode, stream):
    rounds = [
        {"type": "compaction", "input_tokens": 100, "cache_read_input_tokens": 55, "output_tokens": 8},
        {"type": "message", "input_tokens": 20, "output_tokens": 5},
        {"type": "advisor_message", "input_tokens": 1000, "output_tokens": 1000},
    ]
    last = {"input_tokens": 20, "output_tokens": 5, "iterations": rounds}
    usage = usage_of({}, last, decode=decode, stream=stream)
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (175, 55, 13)


def test_finish_holds_input_transformations(decode, stream):
    """`input_transformations` of the last message_delta replace those of message_start."""
    dropped = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "model_binding_mismatch"}
    told = {
        "context_management": {"applied_edits": [{"type": "clear_tool_uses_20250919"}]},
        "diagnostics": {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 7}},
        "input_transformations": [dropped],
    }
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "m", **told}}
    first = decode(stream(start, *TEXT, *end_with({}), begin=False))[-1]
    assert first.provider_metadata == {"anthropic": told}
    again = {"input_transformations": [{**dropped, "path": "messages.3.content.0"}]}
    last = decode(stream(start, *TEXT, *end_with(again), begin=False))[-1]
    assert last.provider_metadata == {"anthropic": {**told, **again}}


def test_full_message_start_has_stop_reason(decode, stream):
    details = {"type": "refusal", "category": "cyber"}
    message = {"id": "msg_1", "model": "m", "stop_reason": "refusal", "stop_details": details}
    finish = decode(stream({"type": "message_start", "message": message}, END, begin=False))[-1]
    assert finish.provider_metadata == {"anthropic": {"stop_details": details}}


def end_with(fields):
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, **fields}, END


def test_counts_that_are_none_are_none(decode, stream):
    assert usage_of(None, decode=decode, stream=stream) == Usage()
    loose = usage_of({"input_tokens": "many", "output_tokens": 3.0}, decode=decode, stream=stream)
    assert (loose.input_tokens, loose.output_tokens) == (None, 3)


def test_broken_stream_keeps_known_usage(decode, stream):
    assert decode(stream(*TEXT[:2]))[-1].usage.input_tokens == 3


# what is wrong


@pytest.mark.parametrize(
    ("kind", "code", "status", "retryable"),
    [
        ("overloaded_error", "overloaded", 529, True),
        ("rate_limit_error", "rate-limited", 429, True),
        ("api_error", "server-error", 500, True),
        ("timeout_error", "server-error", 504, True),
        ("authentication_error", "authentication", 401, False),
        ("permission_error", "permission-denied", 403, False),
        ("not_found_error", "not-found", 404, False),
        ("invalid_request_error", "bad-request", 400, False),
    ],
)
def test_an_error_inside_the_stream_is_typed(kind, code, status, retryable, decode, stream):
    wire = {"type": "error", "error": {"type": kind, "message": "words"}, "request_id": "req_1"}
    (error,) = errors(decode(stream(*TEXT[:2], wire)))
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert (error.message, error.reason, error.request_id) == ("words", kind, "req_1")


def test_an_errors_code_is_its_reason(decode, stream):
    said = {"type": "api_error", "message": "words", "details": {"error_code": "compaction_unavailable"}}
    (error,) = errors(decode(stream(*TEXT[:2], {"type": "error", "error": said})))
    assert (error.status, error.reason) == (500, "compaction_unavailable")


def test_an_error_as_first_event(decode, stream):
    wire = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = decode(stream(wire, begin=False))
    assert codes(events) == ["overloaded"]
    assert len(events) == 3


def test_malformed_frame_is_one_error(decode, stream):
    """Reading continues."""
    body = (
        stream(*TEXT[:2])
        + b"event: x\ndata: {oops\n\n"
        + stream(*TEXT[2:], reason("end_turn"), END, begin=False)
    )
    events = decode(body)
    assert codes(events) == ["decode-error"]
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["Hi"]
    assert events[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "message_start"},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": {"text": "typeless"}},
        {"type": "content_block_start", "index": 0, "content_block": "text"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {"type": "content_block_stop", "index": 7},
        {
            "type": "content_block_delta",
            "index": 7,
            "delta": {"type": "input_json_delta", "partial_json": "{"},
        },
    ],
)
def test_defective_known_event_is_one_error(wire, decode, stream):
    events = decode(stream(wire, reason("end_turn"), END, begin=False))
    assert codes(events) == ["decode-error"]
    assert events[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "invented_event", "index": 0},
        {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "invented_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
        {"type": "message_delta", "delta": None, "usage": None},
        None,
    ],
)
def test_unknown_events_and_nulls_ignored(wire, decode, stream):
    plain = decode(stream(*TEXT, reason("end_turn"), END))
    assert decode(stream(*TEXT[:2], wire, *TEXT[2:], reason("end_turn"), END)) == plain


def test_unknown_event_is_raw_on_request(decode, stream):
    control = decode(stream(*TEXT, reason("end_turn"), END), include_raw=True)
    body = stream(*TEXT, {"type": "invented"}, reason("end_turn"), END)
    events = decode(body, include_raw=True)
    assert [e.raw_value for e in events if isinstance(e, Raw)].count({"type": "invented"}) == 1
    assert len(events) == len(control) + 1


def test_oversized_line_ends_the_stream(decode, stream):
    big = stream(*TEXT[:1], delta(0, "text_delta", text="x" * 5000))
    assert codes(decode(big, limits=StreamLimits(max_event_bytes=1000))) == ["limit-exceeded"]


def test_split_surrogates_join_across_frames(decode, stream):
    body = stream(*TEXT[:1]) + b"".join(
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n' % half
        for half in (rb"a\ud83d", rb"\ude00b")
    )
    events = decode(body + stream(stop(0), reason("end_turn"), END, begin=False))
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "a\U0001f600b"
    assert codes(events) == []


def test_stray_surrogates_are_replaced(decode, stream):
    body = b'data: {"type":"message_start","message":{"id":"msg_\\ud83d","model":"m"}}\n\n'
    body += b'data: {"type":"error","error":{"type":"api_error","message":"\\udc00"}}\n\n'
    events = decode(body)
    assert events[1].id == "msg_\ufffd"
    assert errors(events)[0].message == "\ufffd"


def test_broken_stream_closes_text(decode, stream):
    events = decode(stream(*TEXT[:2]))
    assert [e.incomplete for e in events if isinstance(e, TextEnd)] == [True]
