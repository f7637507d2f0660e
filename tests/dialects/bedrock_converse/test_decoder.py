"""What the events of a Converse stream become."""

from __future__ import annotations

import json

import pytest

from llmstream import events as ev
from llmstream.dialects.base import StreamLimits
from llmstream.framing.aws_event_stream import encode_message

BEGIN = {"messageStart": {"role": "assistant"}}
STOP = {"messageStop": {"stopReason": "end_turn"}}
LAST = {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}}


def delta(index, **fields):
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": fields}}


def start(index, **fields):
    return {"contentBlockStart": {"contentBlockIndex": index, "start": fields}}


def end(index):
    return {"contentBlockStop": {"contentBlockIndex": index}}


def call(index, call_id="t1", name="f"):
    return start(index, toolUse={"toolUseId": call_id, "name": name})


def tool_input(index, text):
    return delta(index, toolUse={"input": text})


def stopped(reason):
    return {"messageStop": {"stopReason": reason}}


@pytest.fixture
def read(decode, frames):
    return lambda *wire, **options: decode(b"".join(frames(*wire)), **options)


def kinds(events):
    return [type(event).__name__ for event in events]


def only(events, kind):
    return [event for event in events if isinstance(event, kind)]


def codes(events):
    return [event.error.code for event in only(events, ev.ErrorEvent)]


# blocks


def test_first_delta_opens_a_text_block(read):
    events = read(BEGIN, delta(0, text="Hi"), end(0), STOP, LAST)
    assert kinds(events) == ["StreamStart", "TextStart", "TextDelta", "TextEnd", "Finish"]


def test_empty_text_block_has_no_deltas(read):
    assert kinds(read(BEGIN, delta(0, text=""), end(0), STOP, LAST))[1:-1] == ["TextStart", "TextEnd"]


def test_stop_of_an_empty_block_is_ignored(read):
    assert kinds(read(BEGIN, end(0), STOP, LAST)) == ["StreamStart", "Finish"]


def test_tool_input_closes_unstopped_text(read):
    events = read(delta(0, text="a"), call(1), tool_input(1, "{}"), end(1), STOP, LAST)
    assert kinds(events)[1:6] == ["TextStart", "TextDelta", "TextEnd", "ToolInputStart", "ToolInputDelta"]


def test_text_closes_unstopped_reasoning(read):
    events = read(delta(0, reasoningContent={"text": "a"}), delta(1, text="b"), STOP, LAST)
    names = kinds(events)
    assert names.index("ReasoningEnd") < names.index("TextStart")


def test_text_at_a_closed_index_is_a_block(read):
    events = read(delta(0, text="a"), call(1), end(1), delta(0, text="b"), STOP, LAST)
    assert [(e.id, e.delta) for e in only(events, ev.TextDelta)] == [("0", "a"), ("0.2", "b")]


def test_changed_kind_at_an_index_splits_it(read):
    events = read(delta(0, reasoningContent={"text": "a"}), delta(0, text="b"), end(0), STOP, LAST)
    assert [e.id for e in only(events, (ev.ReasoningStart, ev.TextStart))] == ["0", "0.2"]


def test_signature_pieces_join_repeats_drop(read):
    pieces = [delta(0, reasoningContent={"signature": text}) for text in ("ab", "cd")]
    (ended,) = only(read(*pieces, end(0), STOP, LAST), ev.ReasoningEnd)
    assert ended.provider_metadata == {"bedrock": {"signature": "abcd"}}
    (ended,) = only(read(pieces[0], pieces[0], end(0), STOP, LAST), ev.ReasoningEnd)
    assert ended.provider_metadata == {"bedrock": {"signature": "ab"}}


def test_redacted_reasoning_pieces_join(read):
    pieces = [delta(0, reasoningContent={"redactedContent": text}) for text in ("YQ==", "Yg==")]
    (ended,) = only(read(*pieces, end(0), STOP, LAST), ev.ReasoningEnd)
    assert ended.provider_metadata == {"bedrock": {"redacted_data": "YWI="}}


# tools


def test_parallel_inputs_interleave_by_index(read):
    events = read(
        call(0, "a"), call(1, "b"), tool_input(1, '{"y":1}'), tool_input(0, '{"x":1}'), end(0), end(1),
        stopped("tool_use"), LAST,
    )  # fmt: skip
    assert [(c.tool_call_id, c.input) for c in only(events, ev.ToolCall)] == [
        ("a", '{"x":1}'),
        ("b", '{"y":1}'),
    ]


def test_call_without_input_is_an_object(read):
    (found,) = only(read(call(0), tool_input(0, ""), end(0), stopped("tool_use"), LAST), ev.ToolCall)
    assert (found.input, found.invalid) == ("{}", False)


def test_empty_call_before_the_limit_is_none(read):
    events = read(call(0), end(0), stopped("max_tokens"), LAST)
    assert only(events, ev.ToolCall) == []
    assert only(events, ev.ToolInputEnd) == [ev.ToolInputEnd("t1", incomplete=True)]


def test_next_block_completes_an_empty_call(read):
    assert len(only(read(call(0), end(0), delta(1, text="x"), stopped("max_tokens"), LAST), ev.ToolCall)) == 1


@pytest.mark.parametrize(
    "reason", ["max_tokens", "guardrail_intervened", "malformed_tool_use", "model_context_window_exceeded"]
)
def test_an_input_that_was_cut_is_no_call(reason, read):
    events = read(call(0), tool_input(0, '{"a":'), stopped(reason), LAST)
    assert only(events, ev.ToolCall) == []


def test_stop_reason_completes_a_tool_input(read):
    (found,) = only(read(call(0), tool_input(0, "{}"), stopped("tool_use"), LAST), ev.ToolCall)
    assert found.input == "{}"


def test_non_json_input_is_an_invalid_call(read):
    (found,) = only(read(call(0), tool_input(0, "{a"), end(0), stopped("tool_use"), LAST), ev.ToolCall)
    assert (found.input, found.invalid) == ("{a", True)


def test_parsed_input_is_written_as_json(read):
    (found,) = only(read(call(0), tool_input(0, {"a": 1}), end(0), stopped("tool_use"), LAST), ev.ToolCall)
    assert found.input == '{"a":1}'


def test_call_with_end_turn_is_tool_calls(read):
    finish = read(call(0), tool_input(0, "{}"), end(0), STOP, LAST)[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == ("tool-calls", "end_turn")


def test_a_start_sent_twice_is_taken_once(read):
    events = read(call(0), call(0), tool_input(0, "{}"), end(0), stopped("tool_use"), LAST)
    assert len(only(events, ev.ToolInputStart)) == 1


def test_repeated_call_ids_become_unique(read):
    events = read(
        call(0), tool_input(0, "{}"), end(0), call(1), tool_input(1, "{}"), end(1), stopped("tool_use"), LAST
    )
    assert [c.tool_call_id for c in only(events, ev.ToolCall)] == ["t1", "t1.2"]


def test_failed_vendor_tool_is_error_result(read):
    events = read(
        start(0, toolUse={"toolUseId": "g", "name": "code", "type": "server_tool_use"}),
        tool_input(0, "{}"),
        end(0),
        start(1, toolResult={"toolUseId": "g", "type": "code_result", "status": "error"}),
        delta(1, toolResult=[{"json": {"exitCode": 1}}]),
        delta(1, toolResult=[{"text": "more"}]),
        end(1),
        STOP,
        LAST,
    )
    (result,) = only(events, ev.ToolResult)
    assert result.result == [{"json": {"exitCode": 1}}, {"text": "more"}]
    assert (result.tool_name, result.is_error, result.provider_executed) == ("code", True, True)
    assert events[-1].finish_reason == "stop"


def test_second_result_of_a_call_is_a_defect(read):
    twice = [start(0, toolResult={"toolUseId": "g"}), end(0), start(1, toolResult={"toolUseId": "g"}), end(1)]
    events = read(*twice, STOP, LAST)
    assert codes(events) == ["decode-error"]
    assert len(only(events, ev.ToolResult)) == 1


# citations and images


def test_citation_with_a_url_is_a_page(read):
    (source,) = only(
        read(delta(0, citation={"source": "https://a.example/", "title": "A"}), end(0), STOP, LAST), ev.Source
    )
    assert (source.source_type, source.url, source.title) == ("url", "https://a.example/", "A")


def test_citation_without_text_comes_at_end(read):
    assert len(only(read(delta(0, citation={"title": "A"})), ev.Source)) == 1
    assert len(only(read(delta(0, citation={"title": "A"}), STOP, LAST), ev.Source)) == 1


def test_citation_before_exception_is_read(read):
    events = read(delta(0, citation={"title": "A"}), {"throttlingException": {"message": "slow"}})
    assert len(only(events, ev.Source)) == 1
    assert codes(events) == ["rate-limited"]


def test_an_image_in_two_pieces_is_one_file(read):
    pieces = [delta(0, image={"source": {"bytes": text}}) for text in ("YQ==", "Yg==")]
    assert only(read(start(0, image={"format": "webp"}), *pieces, end(0), STOP, LAST), ev.File) == [
        ev.File("image/webp", b"ab")
    ]


def test_bucket_image_is_a_file_by_url(read):
    piece = delta(0, image={"source": {"s3Location": {"uri": "s3://bucket/a.png"}}})
    assert only(read(start(0, image={"format": "png"}), piece, end(0), STOP, LAST), ev.File) == [
        ev.File("image/png", "s3://bucket/a.png")
    ]


def test_bucket_owner_of_an_image_is_stored(read):
    source = {"s3Location": {"uri": "s3://bucket/a.png", "bucketOwner": "123"}}
    events = read(start(0, image={"format": "png"}), delta(0, image={"source": source}), end(0), STOP, LAST)
    file = ev.File("image/png", "s3://bucket/a.png", {"bedrock": {"bucket_owner": "123"}})
    assert only(events, ev.File) == [file]


def test_what_came_of_a_failed_image_is_kept(read):
    piece = delta(0, image={"source": {"bytes": "YQ=="}, "error": {"message": "blocked"}})
    events = read(start(0, image={"format": "png"}), piece, end(0), STOP, LAST)
    assert only(events, ev.File) == [ev.File("image/png", b"a")]
    assert "blocked" in only(events, ev.ErrorEvent)[0].error.message


def test_failed_image_is_an_error_event(read):
    piece = delta(0, image={"error": {"message": "blocked"}})
    events = read(start(0, image={"format": "png"}), piece, end(0), STOP, LAST)
    assert "blocked" in only(events, ev.ErrorEvent)[0].error.message
    assert events[-1].finish_reason == "stop"


# the end


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool-calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content-filter"),
        ("content_filtered", "content-filter"),
        ("malformed_model_output", "error"),
        ("malformed_tool_use", "error"),
        ("something_new", "other"),
        (None, "unknown"),
    ],
)
def test_stop_reasons(raw, reason, read):
    finish = read(BEGIN, stopped(raw), LAST)[-1]
    assert (finish.finish_reason, finish.raw_finish_reason) == (reason, raw)


def test_metadata_before_the_stop_counts(read):
    events = read(BEGIN, delta(0, text="x"), LAST, STOP)
    assert events[-1].usage.total_tokens == 3
    assert codes(events) == []


def test_stop_without_metadata_is_complete(read):
    events = read(BEGIN, delta(0, text="x"), end(0), STOP)
    assert (events[-1].finish_reason, events[-1].usage) == ("stop", ev.Usage())


def test_metadata_without_stop_is_incomplete(read):
    """The usage is read all the same."""
    events = read(BEGIN, delta(0, text="x"), LAST)
    assert codes(events) == ["incomplete-stream"]
    assert events[-1].usage.output_tokens == 2


def test_events_after_the_stop_are_ignored(read):
    events = read(BEGIN, STOP, delta(0, text="late"), call(1), end(1), LAST, delta(2, text="later"))
    assert kinds(events) == ["StreamStart", "Finish"]


def test_older_cached_token_names_are_read(read):
    usage = {"inputTokens": 1, "outputTokens": 1, "cacheReadInputTokenCount": 5}
    finish = read(BEGIN, STOP, {"metadata": {"usage": usage}})[-1]
    assert (finish.usage.input_tokens, finish.usage.cached_input_tokens) == (6, 5)
    assert finish.usage.total_tokens == 7


def test_an_empty_body_is_incomplete(decode):
    assert codes(decode()) == ["incomplete-stream"]
    assert codes(decode(b"")) == ["incomplete-stream"]


# errors


@pytest.mark.parametrize(
    ("name", "code", "status", "retryable"),
    [
        ("internalServerException", "server-error", 500, True),
        ("modelStreamErrorException", "server-error", 424, True),
        ("validationException", "bad-request", 400, False),
        ("throttlingException", "rate-limited", 429, True),
        ("serviceUnavailableException", "overloaded", 503, True),
        ("modelTimeoutException", "server-error", 408, True),
        ("somethingNewException", "server-error", 500, True),
    ],
)
@pytest.mark.parametrize("shown", [True, False])
def test_exception_is_typed_at_any_place(name, code, status, retryable, shown, read):
    before = [BEGIN, delta(0, text="Hi")] if shown else []
    events = read(*before, {name: {"message": "words"}}, delta(0, text="never"))
    assert [e.delta for e in only(events, ev.TextDelta)] == (["Hi"] if shown else [])
    (error,) = [e.error for e in only(events, ev.ErrorEvent)]
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert (error.message, error.reason) == ("words", name)
    assert events[-1].finish_reason == "error"


def test_bodiless_error_message_is_typed(decode, frames):
    headers = {":message-type": "error", ":error-code": "ThrottlingException", ":error-message": "slow down"}
    (error,) = [e.error for e in only(decode(encode_message(headers, b"")), ev.ErrorEvent)]
    assert (error.code, error.status, error.message) == ("rate-limited", 429, "slow down")


def test_exception_sent_as_event_is_an_error(decode):
    headers = {":message-type": "event", ":event-type": "throttlingException"}
    (error,) = [e.error for e in only(decode(encode_message(headers, b'{"message":"x"}')), ev.ErrorEvent)]
    assert error.code == "rate-limited"


def test_unknown_events_and_members_skipped(read):
    events = read(
        {"initial-response": {}},
        BEGIN,
        start(0, hologram={"depth": 3}),
        delta(0, hologram="..."),
        {"news": {"a": [1]}},
        delta(1, text="Hi"),
        STOP,
        LAST,
    )
    assert codes(events) == []
    assert [e.delta for e in only(events, ev.TextDelta)] == ["Hi"]


@pytest.mark.parametrize(
    "wire",
    [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": 5}}},
        {"contentBlockDelta": {"contentBlockIndex": [], "delta": {}}},
        {"messageStop": {"stopReason": {}}},
        {"contentBlockDelta": {"contentBlockIndex": 7, "delta": {"toolUse": {"input": "{}"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 7, "delta": {"toolResult": [{}]}}},
        {"contentBlockDelta": {"contentBlockIndex": 7, "delta": {"image": {}}}},
    ],
)
def test_wrong_shaped_event_is_one_defect(wire, read):
    """Reading continues."""
    events = read(BEGIN, wire, delta(0, text="on"), end(0), STOP, LAST)
    assert codes(events) == ["decode-error"]
    assert [e.delta for e in only(events, ev.TextDelta)] == ["on"]


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[]", b"3", b"[" * 100_000])
def test_unreadable_payload_is_a_defect(payload, decode, frames):
    broken = encode_message({":event-type": "contentBlockDelta", ":message-type": "event"}, payload)
    events = decode(*frames(BEGIN), broken, *frames(STOP, LAST))
    assert codes(events) == ["decode-error"]
    assert events[-1].finish_reason == "stop"


def test_named_payload_needs_no_header(decode, frames):
    body = encode_message({}, json.dumps(delta(0, text="Hi")).encode())
    events = decode(body, encode_message({":event-type": "messageStop"}, b""))
    assert [e.delta for e in only(events, ev.TextDelta)] == ["Hi"]
    assert events[-1].finish_reason == "unknown"


def test_raw_events_carry_the_name_of_theirs(read):
    raws = only(read(BEGIN, STOP, LAST, include_raw=True), ev.Raw)
    assert [next(iter(raw.raw_value)) for raw in raws] == ["messageStart", "messageStop", "metadata"]


def test_a_character_in_two_halves_is_joined(decode, frames):
    def half(text):
        payload = b'{"contentBlockIndex":0,"delta":{"text":"%b"}}' % text
        return encode_message({":event-type": "contentBlockDelta"}, payload)

    events = decode(half(rb"a\ud83d"), half(rb"\ude00b"), *frames(STOP, LAST))
    assert "".join(e.delta for e in only(events, ev.TextDelta)) == "a😀b"


# limits


def test_too_many_blocks_end_the_stream(read):
    wire = [delta(number, text="x") for number in range(4)]
    assert codes(read(*wire, STOP, LAST, limits=StreamLimits(max_blocks=3))) == ["limit-exceeded"]


def test_a_large_citation_ends_the_stream(read):
    """The source is emitted, once, although the cap is passed while its text is open."""
    wire = [delta(0, text="x"), delta(0, citation={"title": "A" * 500})]
    events = read(*wire, STOP, LAST, limits=StreamLimits(max_held_bytes=300))
    assert codes(events) == ["limit-exceeded"]
    assert len(only(events, ev.Source)) == 1


def test_a_long_tool_input_ends_the_stream(read):
    events = read(call(0), tool_input(0, "x" * 50), limits=StreamLimits(max_tool_input_bytes=20))
    assert codes(events) == ["limit-exceeded"]


def test_oversized_result_ends_the_stream(read):
    limits = StreamLimits(max_event_bytes=300)
    piece = delta(0, toolResult=[{"text": "x" * 200}])
    assert codes(read(start(0, toolResult={"toolUseId": "a"}), piece, piece, limits=limits)) == [
        "limit-exceeded"
    ]
    part = delta(0, image={"source": {"bytes": "x" * 200}})
    assert codes(read(start(0, image={}), part, part, limits=limits)) == ["limit-exceeded"]


def test_a_long_frame_ends_the_stream(read):
    assert codes(read(delta(0, text="x" * 500), limits=StreamLimits(max_event_bytes=100))) == [
        "limit-exceeded"
    ]


def test_other_bytes_are_no_event_stream(decode):
    assert codes(decode(b'{"message": "a whole JSON answer"}')) == ["protocol-error"]
