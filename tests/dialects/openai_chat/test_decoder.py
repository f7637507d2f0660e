"""The stream as a whole: text, reasoning, ends, errors, and everything that can be wrong with them."""

from __future__ import annotations

import datetime

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_chat import Quirks
from llmstream.events import ErrorEvent, File, Finish, Raw, ResponseMetadata, TextDelta, ToolCall, encode


def test_text_comes_delta_by_delta(wire):
    answer = wire.answer(
        wire.chunk({"role": "assistant", "content": ""}), "Hel", "lo", wire.chunk({}, "stop")
    )
    assert answer.kinds == [
        "stream-start", "response-metadata", "text-start", "text-delta", "text-delta", "text-end", "finish",
    ]  # fmt: skip
    assert [delta.delta for delta in answer.of(TextDelta)] == ["Hel", "lo"]
    assert answer.finish == Finish("stop", raw_finish_reason="stop")
    assert answer.error is None


def test_the_names_of_a_response_come_once(wire):
    answer = wire.answer("a", "b", wire.chunk({}, "stop"))
    when = datetime.datetime.fromtimestamp(1700000000, datetime.UTC)
    assert answer.of(ResponseMetadata) == [ResponseMetadata("m", "chatcmpl-1", when)]


def test_a_numeric_id_is_taken_as_text(wire):
    answer = wire.answer(wire.chunk({"content": "a"}, id=17, created=None), wire.chunk({}, "stop"))
    assert answer.of(ResponseMetadata) == [ResponseMetadata("m", "17")]


def test_usage_without_choices_is_in_finish(wire):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    answer = wire.answer("a", wire.chunk({}, "stop"), {"choices": [], "usage": usage})
    told = answer.finish.usage
    assert (told.input_tokens, told.output_tokens, told.total_tokens, told.raw) == (3, 2, 5, usage)


def test_finish_waits_for_done(wire):
    body = wire.body("a", wire.chunk({}, "stop"), done=False)
    assert wire.read(body).finish.finish_reason == "stop"
    assert wire.read(body + b"data: [DONE] \n\n").kinds == wire.read(body).kinds


def test_nothing_is_read_after_done(wire):
    late = wire.body("more", wire.chunk({}, "length"))
    answer = wire.read(wire.body("a", wire.chunk({}, "stop")) + late)
    assert (answer.text, answer.finish.finish_reason) == ("a", "stop")


def test_missing_reason_is_incomplete(wire):  # case 7
    """Neither a finish reason nor the done mark came."""
    answer = wire.answer("Hello", done=False)
    assert answer.text == "Hello"
    assert answer.errors == ["incomplete-stream"]
    assert answer.error is not None
    assert answer.of(ErrorEvent)[0].error.retryable
    assert answer.finish.finish_reason == "error"


def test_done_without_reason_is_complete(wire):
    answer = wire.answer("Hello")
    assert (answer.errors, answer.finish) == ([], Finish("unknown"))


@pytest.mark.parametrize("before", [b"", b": ping\n\n", b'data: {"choices":[]}\n\n', b"data: null\n\n"])
def test_done_after_nothing_is_an_error(wire, before):
    answer = wire.read(wire.body(before))
    assert answer.errors == ["incomplete-stream"]


def test_unreadable_chunk_is_one_error(wire):  # cases 25, 42
    """Reading continues."""
    answer = wire.answer("a", b"data: {nonsense\n\n", "b", wire.chunk({}, "stop"))
    assert (answer.text, answer.errors, answer.finish.finish_reason) == ("ab", ["decode-error"], "stop")


def test_done_and_bad_chunks_are_no_response(wire):  # case 25
    answer = wire.answer(b"data: {\n\n", b"data: }\n\n")
    assert answer.errors == ["decode-error", "decode-error", "incomplete-stream"]


@pytest.mark.parametrize("deep", ["[" * 5000, '{"choices":' + "[" * 5000])
def test_deeply_nested_json_is_an_error(wire, deep):  # reliability row 31
    answer = wire.answer("a", b"data: " + deep.encode() + b"\n\n", wire.chunk({}, "stop"))
    assert answer.errors == ["decode-error"]


@pytest.mark.parametrize(
    "bad",
    [
        {"choices": "none"},
        {"choices": [{"index": 0, "delta": "text"}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": {"index": 0}}}]},
        {"choices": [{"index": 0, "delta": {"content": 7}}]},
        {"choices": [{"index": 0, "delta": {"images": [{"image_url": {"url": 7}}]}}]},
    ],
)
def test_wrong_shapes_are_error_events(wire, bad):  # reliability row 24
    answer = wire.answer("a", bad, "b", wire.chunk({}, "stop"))
    assert (answer.errors, answer.text) == (["decode-error"], "ab")


@pytest.mark.parametrize(
    "harmless",
    [
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 0, "message": None}]},
        {
            "choices": [
                {"index": 0, "delta": {"role": "", "content": None, "tool_calls": []}, "finish_reason": ""}
            ]
        },
        {"choices": [{"index": None, "delta": {"tool_calls": [None]}}], "usage": {}},
        {"moderation": {"input": {}}},
        {"type": "keepalive"},
        {"error": None, "choices": []},
        {"error": "", "choices": []},
        b"data: null\n\n",
        b"data:\n\n",
        b": comment\n\n",
        b"event: ping\ndata: {}\n\n",
    ],
)
def test_emptiness_is_harmless(wire, harmless):  # case 14
    answer = wire.answer(harmless, "a", harmless, "b", wire.chunk({}, "stop"), harmless)
    assert (answer.text, answer.errors, answer.finish.finish_reason) == ("ab", [], "stop")


def test_only_choice_0_is_read(wire):
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}
    chunk = wire.chunk({"content": "yes"})
    chunk["choices"].append(other)
    answer = wire.answer(chunk, {"choices": [other]}, wire.chunk({}, "stop"))
    assert (answer.text, answer.finish.finish_reason) == ("yes", "stop")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("sensitive", "content-filter"),
        ("model_context_window_exceeded", "length"),
        ("eos", "stop"),
        ("STOP", "stop"),
        ("matched", "other"),
    ],
)
def test_finish_reason_keeps_the_raw_value(wire, raw, reason):
    finish = wire.answer("a", wire.chunk({}, raw)).finish
    assert (finish.finish_reason, finish.raw_finish_reason) == (reason, raw)


def test_quirk_names_a_vendor_finish_reason(wire):
    quirks = Quirks(finish_reasons={"enough": "length"})
    assert wire.answer("a", wire.chunk({}, "enough"), quirks=quirks).finish.finish_reason == "length"


@pytest.mark.parametrize("raw", ["error", "network_error", "insufficient_system_resource"])
def test_failure_finish_reason_is_an_error(wire, raw):
    answer = wire.answer("a", wire.chunk({}, raw))
    assert answer.errors == ["server-error"]
    assert answer.of(ErrorEvent)[0].error.retryable
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == ("error", raw)


def test_refusal_is_text_and_content_filter(wire):  # case 42
    answer = wire.answer(
        wire.chunk({"refusal": "I can"}), wire.chunk({"refusal": "not."}), wire.chunk({}, "stop")
    )
    assert (answer.text, answer.finish.finish_reason) == ("I cannot.", "content-filter")


def test_chunk_may_hold_reasoning_text_call(wire):
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    delta = {"reasoning_content": "hm", "content": "so", "tool_calls": [call]}
    answer = wire.answer(wire.chunk(delta, "tool_calls"))
    assert answer.kinds[2:-1] == [
        "reasoning-start", "reasoning-delta", "reasoning-end",
        "text-start", "text-delta", "text-end",
        "tool-input-start", "tool-input-delta", "tool-input-end", "tool-call",
    ]  # fmt: skip


def test_interleaved_blocks_stay_separate(wire):  # case 39
    think = wire.chunk({"reasoning": "thought"})
    answer = wire.answer("intro", think, "outro", wire.chunk({}, "stop"))
    assert [event.id for event in answer.events if hasattr(event, "id")][1:] == ["0"] * 3 + ["1"] * 3 + [
        "2"
    ] * 3


def test_reasoning_in_two_fields_comes_once(wire):
    answer = wire.answer(
        wire.chunk({"reasoning": "hm", "reasoning_content": "hm"}), "a", wire.chunk({}, "stop")
    )
    assert answer.reasoning == "hm"


def test_stream_error_ends_it_with_its_class(wire):  # reliability row 28
    error = {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}}
    answer = wire.answer("a", error, "b")
    assert (answer.text, answer.errors) == ("a", ["rate-limited"])
    assert answer.of(ErrorEvent)[0].error.message == "slow down"
    assert answer.finish.finish_reason == "error"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"error": "the model crashed"}, "server-error"),
        ({"error": {"message": "busy", "code": "503"}}, "overloaded"),
        ({"error": {}}, "server-error"),
        (
            {"object": "error", "message": "too long: context_length_exceeded", "code": 400},
            "context-too-long",
        ),
        ({"message": "no such key", "code": "invalid_api_key"}, "authentication"),
        ([{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}], "rate-limited"),
        ({"x_groq": {"error": "over capacity"}, "choices": []}, "server-error"),
    ],
)
def test_errors_of_every_shape_are_errors(wire, value, code):
    answer = wire.answer("a", value)
    assert (answer.text, answer.errors) == ("a", [code])


def test_error_before_output_keeps_status(wire):  # reliability row 27
    answer = wire.answer({"error": {"message": "upstream", "code": 502}})
    assert answer.of(ErrorEvent)[0].error.status == 502
    assert answer.of(ErrorEvent)[0].error.retryable


def test_full_completion_replaces_chunks(wire):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    same = {**call, "id": "b"}
    message = {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [call, same]}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    whole = {"id": "x", "object": "chat.completion", "model": "m", "usage": usage,
             "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}  # fmt: skip
    answer = wire.answer(whole, done=False)
    assert (answer.reasoning, answer.text) == ("hm", "hi")
    assert answer.calls == [("f", '{"x":1}')] * 2
    assert answer.finish.usage.total_tokens == 3


def test_message_after_deltas_is_not_doubled(wire):
    last = {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    assert wire.answer("a", "b", last).text == "ab"


def test_content_may_be_a_list_of_parts(wire):
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        "b",
    ]
    answer = wire.answer(wire.chunk({"content": parts}), wire.chunk({}, "stop"))
    assert (answer.reasoning, answer.text) == ("hm", "ab")


def test_audio_is_a_file_and_transcript(wire):
    answer = wire.answer(
        wire.chunk({"audio": {"id": "au_1", "transcript": "Hel"}}),
        wire.chunk({"audio": {"transcript": "lo", "data": "AAA="}}),
        wire.chunk({"audio": {"data": "AQID", "expires_at": 1}}),
        wire.chunk({}, "stop"),
    )
    assert answer.text == "Hello"
    assert answer.of(File) == [
        File("audio/pcm", b"\0\0\1\2\3", {"acme": {"audio_id": "au_1", "audio_expires_at": 1}})
    ]


def test_missing_recording_is_in_the_finish(wire):
    answer = wire.answer(
        "a",
        wire.chunk({}, "stop"),
        wire.chunk({"audio": {"id": "au_1"}}),
        wire.chunk({"audio": {"expires_at": 9}}),
    )
    said = {"audio": {"audio_id": "au_1", "audio_expires_at": 9}}
    assert (answer.of(File), answer.finish.provider_metadata) == ([], {"acme": said})


def test_non_base64_audio_is_an_error_event(wire):
    answer = wire.answer(wire.chunk({"audio": {"data": "\u00e9"}}), wire.chunk({}, "stop"))
    assert (answer.errors, answer.finish.finish_reason) == (["decode-error"], "stop")


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("data:image/webp;base64,AQID", File("image/webp", b"\1\2\3")),
        ("https://x.example/a.png", File("image/*", "https://x.example/a.png")),
    ],
)
def test_images_are_files(wire, url, file):
    answer = wire.answer(wire.chunk({"images": [{"image_url": {"url": url}}]}), wire.chunk({}, "stop"))
    assert answer.of(File) == [file]


def test_split_surrogate_pair_is_joined(wire):  # case 45
    def raw(text):
        return b'data: {"choices":[{"index":0,"delta":{"content":"' + text + b'"}}]}\n\n'

    answer = wire.answer("a", raw(rb"\ud83d"), raw(rb"\ude00"), raw(rb"\ud83d"), wire.chunk({}, "stop"))
    assert answer.text == "a\N{GRINNING FACE}\N{REPLACEMENT CHARACTER}"


def test_lone_surrogates_stay_encodable(wire):  # case 45
    half = {"choices": [], "usage": {"note": "\ud83d"}, "extra": 1}
    call = {"index": 0, "id": "c\ude00", "function": {"name": "f\ud83d", "arguments": {"x": "\ude00"}}}
    failed = {"error": {"message": "no \ud83d"}}
    for chunks in ((wire.call(call), half, wire.chunk({}, "stop")), ("a", half, failed), ("a", half)):
        for event in wire.answer(*chunks).events:
            encode(event)


def test_split_pair_in_arguments_is_joined(wire):  # case 45
    def raw(text):
        return (
            b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a",'
            b'"function":{"name":"f","arguments":"' + text + b'"}}]}}]}\n\n'
        )

    answer = wire.answer(raw(rb"{\"x\":\"\ud83d"), raw(rb"\ude00\"}"), wire.chunk({}, "tool_calls"))
    assert answer.calls == [("f", '{"x":"\N{GRINNING FACE}"}')]
    assert not answer.of(ToolCall)[0].invalid


def test_defect_beside_cut_keeps_the_reason(wire):
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}}
    answer = wire.answer(wire.call(call), b"data: {\n\n", wire.chunk({}, "length"))
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == ("length", "length")


def test_invalid_utf8_is_replaced(wire):  # reliability row 22
    answer = wire.answer(
        b'data: {"choices":[{"index":0,"delta":{"content":"a\xffb"}}]}\n\n', wire.chunk({}, "stop")
    )
    assert answer.text == "a\N{REPLACEMENT CHARACTER}b"


def test_raw_events_come_when_asked_for(wire):
    unknown = {"choices": [], "something": "new"}
    answer = wire.answer(unknown, "a", wire.chunk({}, "stop"), include_raw=True)
    assert answer.of(Raw)[0].raw_value == unknown
    assert answer.of(Raw)[-1].raw_value == "[DONE]"
    assert [e for e in answer.events if type(e) is not Raw] == wire.answer(
        unknown, "a", wire.chunk({}, "stop")
    ).events


def test_an_endless_event_ends_the_stream(wire):  # reliability row 29
    answer = wire.read(
        wire.body("a")[:-14] + b"data: " + b"x" * 3000, limits=StreamLimits(max_event_bytes=2000)
    )
    assert (answer.text, answer.errors) == ("a", ["limit-exceeded"])


def test_too_many_blocks_end_the_stream(wire):
    chunks = [c for _ in range(10) for c in ("a", wire.chunk({"reasoning": "b"}))]
    assert wire.answer(*chunks, limits=StreamLimits(max_blocks=5)).errors == ["limit-exceeded"]


def test_many_events_take_linear_time(wire):  # reliability row 30
    """And little memory."""
    body = wire.body(*["x"] * 20_000, wire.chunk({}, "stop"))
    cuts = range(65536, len(body), 65536)
    assert len(wire.read(body, cuts=cuts).text) == 20_000
