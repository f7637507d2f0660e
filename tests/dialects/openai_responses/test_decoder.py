"""The response around its items: names, ends, errors, usage, audio."""

from __future__ import annotations

import base64
import datetime
import json

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import (
    Custom,
    ErrorEvent,
    File,
    Raw,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side

USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 42,
}


def test_names_come_once_from_first_event(wire):
    created = {"type": "response.created", "response": {"id": "resp_9", "model": "gpt", "created_at": 86400}}
    progress = {"type": "response.in_progress", "response": {"id": "resp_other", "model": "gpt"}}
    answer = wire.read(_frames(created, progress, {"type": "response.completed", "response": {}}))
    day = datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC)
    assert answer.of(ResponseMetadata) == [ResponseMetadata("gpt", "resp_9", day)]


def test_last_event_names_a_resumed_stream(wire):
    last = {"type": "response.completed", "response": {"id": "resp_9", "model": "gpt", "status": "completed"}}
    answer = wire.read(_frames(*wire.message(3, "on")[1:], last))
    assert answer.texts == ["on"]
    assert answer.of(ResponseMetadata)[0].id == "resp_9"
    assert answer.finish.finish_reason == "stop"


def test_background_response_waits_in_queue(wire):
    queued = {"type": "response.queued", "response": {"id": "resp_1", "model": "m", "status": "queued"}}
    answer = wire.answer(queued, *wire.message(0, "4"))
    assert (answer.texts, answer.finish.raw_finish_reason) == (["4"], "completed")


def test_usage_is_read_and_kept(wire):
    usage = wire.answer(*wire.message(0, "a"), usage=USAGE).finish.usage
    assert usage == Usage(30, 12, 42, 5, 20, 4, USAGE)


def test_usage_that_says_nothing_is_none(wire):
    assert wire.answer(usage=None).finish.usage == Usage()
    odd = {"input_tokens": 3.0, "output_tokens": "many", "input_tokens_details": None}
    assert wire.answer(usage=odd).finish.usage == Usage(3, raw=odd)


@pytest.mark.parametrize(
    ("end", "response", "reason", "raw"),
    [
        ("completed", {}, "stop", "completed"),
        ("done", {"status": "completed"}, "stop", "completed"),
        (
            "incomplete",
            {"incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            "incomplete",
            {"incomplete_details": {"reason": "content_filter"}},
            "content-filter",
            "content_filter",
        ),
        ("incomplete", {"incomplete_details": {"reason": "max_messages"}}, "length", "max_messages"),
        ("incomplete", {"incomplete_details": {"reason": "steered"}}, "other", "steered"),
        ("incomplete", {"incomplete_details": {"reason": "new_reason"}}, "other", "new_reason"),
        ("incomplete", {"incomplete_details": None}, "other", "incomplete"),
        ("cancelled", {}, "other", "cancelled"),
        ("completed", {"status": "cancelled"}, "other", "cancelled"),
        ("completed", {"status": ["odd"]}, "stop", "completed"),
    ],
)
def test_finish_reasons(wire, end, response, reason, raw):
    finish = wire.answer(*wire.message(0, "a"), end=end, **response).finish
    assert (finish.finish_reason, finish.raw_finish_reason) == (reason, raw)


def test_extra_response_fields_are_stored(wire):
    moderation = {"input": {"type": "moderation_result", "flagged": False}}
    finish = wire.answer(service_tier="flex", moderation=moderation).finish
    assert finish.provider_metadata == {
        "openai": {"response_id": "resp_1", "service_tier": "flex", "moderation": moderation}
    }


# Errors.


BESIDE = {
    "service_tier": "flex",
    "tool_usage": {"image_gen": {"input_tokens": 7, "total_tokens": 9}, "web_search": {"num_requests": 2}},
    "input_transformations": [
        {"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "model_mismatch"}
    ],
    "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 12},
    "access_programs": {"cyber": "standard"},
    "conversation": {"id": "conv_1"},
    "image": {"context_compression": "enabled"},
    "completed_at": 1790000000,
    "a_field_of_tomorrow": {"x": 1},
}
ECHOED = {"instructions": "Be kind.", "tools": [{"type": "web_search"}], "temperature": 0.5, "user": "u"}


def test_response_metadata_is_in_the_finish(wire):
    answer = wire.answer(*wire.message(0, "a"), **BESIDE, **ECHOED, billing=None)
    assert answer.finish.provider_metadata == {"openai": {"response_id": "resp_1", **BESIDE}}
    writer = server_side(OpenAIResponses()).event_encoder(Request(model="m"))
    again = wire.read(b"".join(writer.feed(event) for event in answer.events) + writer.close())
    assert again.finish.provider_metadata == answer.finish.provider_metadata


def test_a_failed_answer_says_it_too(wire):
    error = {"code": "server_error", "message": "no"}
    answer = wire.answer(*wire.message(0, "a"), end="failed", error=error, **BESIDE)
    assert answer.finish.finish_reason == "error"
    assert answer.finish.provider_metadata == {"openai": {"response_id": "resp_1", **BESIDE}}
    assert answer.error.provider_metadata == answer.finish.provider_metadata
    writer = server_side(OpenAIResponses()).event_encoder(Request(model="m"))
    again = wire.read(b"".join(writer.feed(event) for event in answer.events) + writer.close())
    assert (again.of(ErrorEvent), again.finish) == (answer.of(ErrorEvent), answer.finish)


def test_forgotten_reasoning_is_logged(wire, caplog):
    wire.answer(*wire.message(0, "a"), input_transformations=BESIDE["input_transformations"])
    (record,) = caplog.records
    assert (record.levelname, "model_mismatch" in record.getMessage()) == ("WARNING", True)


@pytest.mark.parametrize("changes", [[], None, "x", ["x"], [{"action": "kept"}]])
def test_other_input_changes_are_not_logged(wire, caplog, changes):
    wire.answer(*wire.message(0, "a"), input_transformations=changes)
    assert caplog.records == []


def test_a_flat_error_is_reported_once(wire):
    flat = {"type": "error", "code": "server_error", "message": "had an error", "param": None}
    failed = {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "again"}}}
    answer = wire.read(wire.body(*wire.message(0, "half")[:2], flat, failed, end=None))
    assert answer.errors == ["server-error"]
    error = answer.of(ErrorEvent)[0].error
    assert (error.message, error.reason, error.retryable) == ("had an error", "server_error", True)
    assert answer.texts == ["half"]
    assert answer.finish.finish_reason == "error"


def test_a_nested_error_says_the_same(wire):
    nested = {"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}
    nested["error"]["message"] = "You exceeded your current quota"
    error = wire.answer(nested, end=None).of(ErrorEvent)[0].error
    assert (error.code, error.status, error.retryable) == ("rate-limited", 429, False)


def test_lone_failed_response_is_an_error(wire):
    """With its usage."""
    error = {"code": "rate_limit_exceeded", "message": "Slow down"}
    answer = wire.answer(*wire.message(0, "a"), end="failed", error=error, usage=USAGE)
    assert answer.errors == ["rate-limited"]
    assert answer.finish.usage.total_tokens == 42


@pytest.mark.parametrize(
    ("code", "status"),
    [("invalid_prompt", 400), ("image_too_large", 400), ("vector_store_timeout", 504), ("server_error", 500)],
)
def test_codes_have_a_status(wire, code, status):
    error = wire.answer(end="failed", error={"code": code, "message": "no"}).of(ErrorEvent)[0].error
    assert (error.status, error.retryable) == (status, status >= 500)


def test_a_flat_error_names_its_field(wire):
    flat = {"type": "error", "code": "invalid_prompt", "message": "no", "param": "input[0]"}
    error = wire.answer(flat, end=None).of(ErrorEvent)[0].error
    assert (error.code, error.param) == ("bad-request", "input[0]")


@pytest.mark.parametrize("code", ["bio_policy", "cyber_policy", "misalignment_policy_violation"])
def test_a_policy_block_is_not_retried(wire, code):
    block = {"misalignment": {"error_type": "other", "steer": {"message": "Ask first."}}}
    error = {"code": code, "message": "Blocked.", "param": "input", **block}
    answer = wire.answer(*wire.message(0, "a"), end="failed", error=error)
    told = answer.of(ErrorEvent)[0].error
    assert (told.code, told.status, told.retryable) == ("content-filtered", 400, False)
    assert (told.reason, told.param, told.details) == (code, "input", block)
    writer = server_side(OpenAIResponses()).event_encoder(Request(model="m"))
    again = wire.read(b"".join(writer.feed(event) for event in answer.events) + writer.close())
    assert again.of(ErrorEvent) == answer.of(ErrorEvent)


def test_failed_response_needs_no_message(wire):
    assert wire.answer(end="failed", error=None).errors == ["server-error"]


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"message": "no", "code": "server_error"}},
        {"message": "no"},
        {"detail": "no"},
        {"type": "response.error", "message": "no"},
    ],
)
def test_errors_without_type_are_errors(wire, event):
    answer = wire.answer(event, end=None)
    assert answer.errors == ["server-error"]
    assert answer.of(ErrorEvent)[0].error.message == "no"


def test_chat_chunks_hint_at_a_wrong_address(wire):
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}
    answer = wire.read(_frames(chunk))
    assert answer.errors == ["not-a-stream"]
    assert "Chat Completions" in str(answer.error)
    assert "/responses" in str(answer.error)


# The stream itself.


def test_marks_and_unknown_events_ignored(wire):
    noise = b": OPENROUTER PROCESSING\n\ndata: null\n\ndata: [DONE]\n\n"
    answer = wire.answer(noise, {"type": "keepalive"}, {"type": "codex.rate_limits", "n": 1}, noise)
    assert answer.kinds == ["stream-start", "response-metadata", "finish"]


def test_done_without_a_last_event_is_no_end(wire):
    assert wire.answer(*wire.message(0, "a"), b"data: [DONE]\n\n", end=None).errors == ["incomplete-stream"]


def test_defective_event_is_one_error(wire):
    """Reading continues."""
    body = [b'data: {"type":"response.output_text.delta","delta\n\n', *wire.message(0, "on")]
    answer = wire.answer(*body)
    assert answer.errors == ["decode-error"]
    assert answer.texts == ["on"]
    assert answer.finish.finish_reason == "stop"


def test_events_without_a_type_are_ignored(wire):
    assert wire.answer({"odd": 1}, *wire.message(0, "a")).texts == ["a"]


def test_raw_events_are_given_when_asked_for(wire):
    raws = wire.answer({"type": "response.new_thing", "x": 1}, include_raw=True).of(Raw)
    assert raws[1].raw_value == {"type": "response.new_thing", "x": 1}


def test_surrogates_are_joined_or_replaced(wire):
    head, tail = b'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,', b"}\n\n"
    halves = [head + b'"delta":"a\\ud83d"' + tail, head + b'"delta":"\\ude00b"' + tail]
    lone = head + b'"delta":"c\\ud83d"' + tail
    answer = wire.answer(wire.message(0)[0], *halves, lone, wire.done(0, type="message", content=[]))
    assert answer.texts == ["a😀bc\ufffd"]


def test_surrogates_in_items_are_replaced(wire):
    item = {"type": "compaction", "id": "cmp_1", "note": "\ud83d"}
    custom = wire.answer(wire.added(0, **item), wire.done(0, **item)).of(Custom)[0]
    assert custom.provider_metadata["openai"]["item"]["note"] == "\ufffd"


def test_too_many_items_are_a_limit(wire):
    events = [event for place in range(4) for event in wire.message(place, "a", item_id=f"m{place}")]
    assert wire.answer(*events, limits=StreamLimits(max_blocks=3)).errors == ["limit-exceeded"]


def test_audio_is_one_file_with_a_transcript(wire):
    sound = b"RIFF0000WAVE"
    parts = [base64.b64encode(sound[:6]).decode(), base64.b64encode(sound[6:]).decode()]
    answer = wire.answer(
        {"type": "response.audio.delta", "delta": parts[0]},
        {"type": "response.audio.transcript.delta", "delta": "Hel"},
        {"type": "response.audio.delta", "delta": parts[1]},
        {"type": "response.audio.transcript.delta", "delta": "lo"},
        {"type": "response.audio.done"},
    )
    assert answer.of(File) == [File("audio/wav", sound)]
    assert answer.texts == ["Hello"]


def test_audio_may_be_cut_within_base64(wire):
    deltas = [{"type": "response.audio.delta", "delta": part} for part in ("UklG", "RjA", "wMDBXQVZF")]
    assert wire.answer(*deltas).of(File) == [File("audio/wav", b"RIFF0000WAVE")]


def test_audio_that_is_no_base64_is_a_defect(wire):
    answer = wire.answer({"type": "response.audio.delta", "delta": "***"})
    assert (answer.errors, answer.of(File)) == (["decode-error"], [])


# Items.


def test_rotating_ids_match_items_by_index(wire):
    """GitHub Copilot gives an item a new id in every event (vercel/ai, 2026-08)."""
    summary = [{"type": "summary_text", "text": "Count."}]
    answer = wire.answer(
        wire.added(0, type="reasoning", id="a1", summary=[]),
        wire.on(0, "reasoning_summary_part.added", item_id="a2", summary_index=0, part={"text": ""}),
        wire.on(0, "reasoning_summary_text.delta", item_id="a3", summary_index=0, delta="Count."),
        wire.done(0, type="reasoning", id="a4", summary=summary),
        wire.added(1, type="message", id="b1", content=[]),
        wire.on(1, "output_text.delta", item_id="b2", content_index=0, delta="3"),
        wire.on(1, "output_text.delta", item_id="b3", content_index=0, delta="!"),
        wire.done(1, type="message", id="b4", content=[{"type": "output_text", "text": "3!"}]),
    )
    assert (answer.reasonings, answer.texts) == (["Count."], ["3!"])
    assert len(answer.of(TextStart)) == len(answer.of(ReasoningStart)) == 1


def test_items_without_index_match_by_id(wire):
    answer = wire.answer(
        {"type": "response.output_item.added", "item": {"id": "m1", "type": "message"}},
        {"type": "response.output_text.delta", "item_id": "m1", "content_index": 0, "delta": "by id"},
        {"type": "response.output_item.done", "item_id": "m1", "item": {"id": "m1", "type": "message"}},
    )
    assert answer.texts == ["by id"]


def test_items_may_share_one_index(wire):
    answer = wire.answer(
        *wire.message(0, "a", item_id="m1"),
        *wire.message(0, "b", item_id="m2"),
        *wire.function(0, "{}"),
    )
    assert (answer.texts, answer.calls) == (["a", "b"], [("look", "{}")])


def test_an_item_that_opens_twice_opens_once(wire):
    answer = wire.answer(wire.message(0)[0], *wire.message(0, "a"))
    assert (answer.texts, len(answer.of(TextStart))) == (["a"], 1)


def test_unknown_items_are_stored_complete(wire):
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "late"}
    answer = wire.answer(wire.added(0, **{**item, "encrypted_content": "early"}), wire.done(0, **item))
    said = {"type": "compaction", "provider": "openai", "item": item}
    assert answer.of(Custom) == [Custom("openai.compaction", {"openai": said})]


def test_item_without_its_type_is_a_defect(wire):
    assert wire.answer(wire.added(0, id="x")).errors == ["decode-error"]
    assert wire.answer({"type": "response.output_item.done", "output_index": 0}).errors == ["decode-error"]


def test_last_event_closes_open_text(wire):
    answer = wire.answer(*wire.message(0, "a")[:2])
    assert answer.of(TextEnd) == [TextEnd("msg_1")]
    assert answer.errors == []


def test_empty_deltas_and_null_text_ignored(wire):
    answer = wire.answer(
        wire.message(0)[0],
        wire.on(0, "output_text.delta", content_index=0, delta=""),
        wire.on(0, "output_text.delta", content_index=0, delta=None),
        wire.on(0, "output_text.done", content_index=0, text=None),
        wire.done(0, type="message", content=[{"type": "output_text", "text": None}]),
    )
    assert answer.of(TextDelta) == []
    assert answer.errors == []


def _frames(*events):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
