"""The interaction around the steps: names, counts, statuses, errors."""

from __future__ import annotations

import datetime

import pytest

from llmstream import errors
from llmstream.dialects.base import StreamLimits
from llmstream.events import Finish, Raw, ResponseMetadata, TextDelta, ToolInputEnd, Usage


def created(**fields):
    return {"event_type": "interaction.created", "interaction": {"status": "in_progress", **fields}}


def status(word):
    return {"event_type": "interaction.status_update", "status": word}


def test_the_response_is_named_once(wire):
    event = created(id="v1", model="m", created="2026-05-13T19:57:43Z")
    answer = wire.answer(event, wire.text("a"), wire.completed(id="v1", model="m"))
    when = datetime.datetime(2026, 5, 13, 19, 57, 43, tzinfo=datetime.UTC)
    assert answer.of(ResponseMetadata) == [ResponseMetadata("m", "v1", when)]
    assert answer.finish.provider_metadata == {"google": {"interaction_id": "v1"}}


def test_unstored_interaction_has_no_id(wire):
    answer = wire.answer(created(id="", model="m"), wire.text("a"), wire.completed(id=""))
    assert answer.of(ResponseMetadata) == [ResponseMetadata("m")]
    assert answer.finish.provider_metadata is None


@pytest.mark.parametrize(
    ("word", "reason", "codes"),
    [
        ("completed", "stop", []),
        ("requires_action", "tool-calls", []),
        ("incomplete", "length", []),
        ("cancelled", "other", []),
        ("budget_exceeded", "length", []),
        ("failed", "error", ["server-error"]),
    ],
)
def test_each_status_has_its_reason(wire, word, reason, codes):
    answer = wire.steps(wire.text("a"), status=word)
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == (reason, word)
    assert answer.errors == codes


def test_calls_finish_as_tool_calls(wire):
    answer = wire.steps(wire.step(0, "function_call", id="x", name="f"))
    assert answer.finish.finish_reason == "tool-calls"


def test_a_failed_interaction_says_why(wire):
    told = {"message": "no quota", "code": "rate_limit_exceeded"}
    answer = wire.answer(wire.completed("failed", error=told))
    assert isinstance(answer.error, errors.RateLimited)
    assert answer.error.message == "no quota"


@pytest.mark.parametrize(
    ("code", "error", "status", "reason", "retryable"),
    [
        ("rate_limit_exceeded", errors.RateLimited, 429, "rate_limit_exceeded", True),
        ("quota_exceeded", errors.RateLimited, 429, "quota_exceeded", False),
        ("payment_required", errors.PermissionDenied, 402, "payment_required", False),
        ("parameter_unknown", errors.BadRequest, 400, "parameter_unknown", False),
        ("service_unavailable", errors.Overloaded, 503, "service_unavailable", True),
        ("INVALID_ARGUMENT", errors.BadRequest, 400, "INVALID_ARGUMENT", False),
        ("deadline_exceeded", errors.ServerError, 504, "deadline_exceeded", True),
        (
            "https://e.example/errors/not_found",
            errors.NotFound,
            404,
            "https://e.example/errors/not_found",
            False,
        ),
        (8, errors.RateLimited, 429, "RESOURCE_EXHAUSTED", True),
        (3, errors.BadRequest, 400, "INVALID_ARGUMENT", False),
        (12, errors.ServerError, 501, "UNIMPLEMENTED", False),
        (14, errors.Overloaded, 503, "UNAVAILABLE", True),
        (503, errors.Overloaded, 503, None, True),
    ],
)
def test_the_code_of_a_failure_decides(wire, code, error, status, reason, retryable):
    told = [{"code": code, "message": "words"}, {"code": "internal_error", "message": "more"}]
    answer = wire.answer(wire.text("a"), wire.completed("failed", errors=told))
    got = answer.error
    assert type(got) is error
    assert (got.message, got.status, got.reason, got.retryable) == ("words", status, reason, retryable)
    assert answer.finish.provider_metadata == {"google": {"errors": told}}


def test_output_error_is_the_failures_cause(wire):
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
    told = {"code": 8, "message": "busy", "details": details}
    failed = wire.answer(wire.step(0, "model_output", error=told), wire.completed("failed"))
    assert isinstance(failed.error, errors.RateLimited)
    assert (failed.error.message, failed.error.retry_after_s) == ("busy", 7.0)
    assert failed.finish.provider_metadata == {"google": {"errors": [told]}}


def test_interaction_survives_output_error(wire):
    told = {"code": 13, "message": "words"}
    answer = wire.steps(wire.step(0, "model_output", error=told), wire.text("a", 1))
    assert (answer.error, answer.text, answer.finish.finish_reason) == (None, "a", "stop")
    assert answer.finish.provider_metadata == {"google": {"errors": [told]}}


def test_unstreamed_steps_come_at_the_end(wire):
    whole = [
        {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Hello"}], "error": {"code": 13}},
        {"type": "function_call", "id": "x", "name": "f", "arguments": {"a": 1}},
    ]
    answer = wire.answer(wire.completed(steps=whole))
    assert (answer.reasoning, answer.text, answer.calls) == ("Hm", "Hello", [("f", '{"a":1}')])
    assert answer.finish.provider_metadata == {"google": {"errors": [{"code": 13}]}}
    again = wire.answer(wire.text("Hello"), wire.completed(steps=whole))
    assert (again.text, again.reasoning, again.calls) == ("Hello", "", [])
    assert again.finish.provider_metadata == {"google": {"errors": [{"code": 13}]}}


def test_what_an_interaction_ran_in_is_kept(wire):
    answer = wire.answer(wire.completed(environment_id="env_1", model="m", agent="deep-research"))
    told = {"environment_id": "env_1", "agent": "deep-research"}
    assert answer.finish.provider_metadata == {"google": told}


def test_finish_does_not_wait_for_done(wire):
    from llmstream.dialects.gemini_interactions import GeminiInteractions

    decoder = GeminiInteractions().decoder(provider="google")
    events = decoder.feed(wire.body(wire.text("a"), wire.completed()))
    assert isinstance(events[-1], Finish)
    assert decoder.complete
    assert decoder.done
    assert decoder.feed(b"event: done\ndata: [DONE]\n\n") == []


def test_a_status_that_is_final_is_enough(wire):
    assert wire.answer(wire.text("a"), status("completed")).finish.finish_reason == "stop"
    requires = {"event_type": "interaction.requires_action"}
    call = wire.step(0, "function_call", id="x", name="f")
    assert wire.answer(call, requires).finish.finish_reason == "tool-calls"


@pytest.mark.parametrize("tail", [[], [status("in_progress")], [b"event: done\ndata: [DONE]\n\n"]])
def test_missing_final_status_is_incomplete(wire, tail):
    assert wire.answer(wire.text("a"), *tail).errors == ["incomplete-stream"]


def test_completion_without_status_completes(wire):
    assert wire.answer(wire.text("a"), {"event_type": "interaction.completed"}).finish.finish_reason == "stop"


def test_former_names_of_events(wire):
    answer = wire.answer(
        {"event_type": "interaction.start", "interaction": {"id": "v1", "model": "m"}},
        {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "a"}},
        {"event_type": "content.stop", "index": 0},
        {"event_type": "content.start", "index": 1, "content": {"type": "function_call"}},
        {
            "event_type": "content.delta",
            "index": 1,
            "delta": {"type": "function_call", "id": "x", "name": "f", "arguments": {"a": 1}},
        },
        {"event_type": "content.stop", "index": 1},
        {"event_type": "interaction.complete", "interaction": {"status": "requires_action"}},
    )
    assert answer.text == "a"
    assert answer.calls == [("f", '{"a":1}')]
    assert answer.finish.finish_reason == "tool-calls"


# counts


def test_thoughts_are_part_of_the_output(wire):
    raw = {"total_tokens": 60, "total_input_tokens": 10, "total_cached_tokens": 4, "total_output_tokens": 5}
    raw |= {"total_thought_tokens": 40, "total_tool_use_tokens": 5}
    assert wire.answer(wire.text("a"), wire.completed(usage=raw)).finish.usage == Usage(
        10, 45, 60, 40, 4, None, raw
    )


def test_failed_stream_keeps_counts_so_far(wire):
    so_far = {"metadata": {"usage": {"total_input_tokens": 11, "total_thought_tokens": 68}}}
    events = [{**wire.start(0, "model_output"), **so_far}, {**wire.delta(0, "text", text="a"), **so_far}]
    usage = wire.answer(*events, {"event_type": "error", "error": {"message": "m"}}).finish.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (11, 68, 68)


def test_counts_stand_in_many_places(wire):
    """google-genai 3.4.0: beside a delta, in the stop of a step, in a change of the status."""
    events = [
        wire.start(0, "model_output"),
        {**wire.delta(0, "text", text="a"), "metadata": {"total_usage": {"total_input_tokens": 1}}},
        {**wire.stop(0), "usage": {"total_output_tokens": 2}, "step_usage": {"total_output_tokens": 3}},
        {**status("in_progress"), "usage": {"total_tokens": 9}, "interaction_id": "v1"},
    ]
    finish = wire.answer(*events, wire.completed()).finish
    usage = finish.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1, 2, 9)
    of_step = [{"index": 0, "usage": {"total_output_tokens": 3}}]
    assert finish.provider_metadata == {"google": {"interaction_id": "v1", "step_usage": of_step}}


# what goes wrong


@pytest.mark.parametrize(
    ("code", "error", "status"),
    [
        ("gateway_timeout", errors.ServerError, 504),
        ("rate_limit_exceeded", errors.RateLimited, 429),
        ("invalid_request", errors.BadRequest, 400),
        ("internal_error", errors.ServerError, 500),
    ],
)
def test_an_error_inside_the_stream(wire, code, error, status):
    answer = wire.answer(wire.text("a"), {"event_type": "error", "error": {"message": "words", "code": code}})
    assert type(answer.error) is error
    assert (answer.error.status, answer.error.reason, answer.error.message) == (status, code, "words")


def test_a_call_that_is_open_at_the_end(wire):
    opened = [
        wire.start(0, "function_call", id="x", name="f"),
        wire.delta(0, "arguments_delta", arguments='{"a"'),
    ]
    cut = wire.steps(*opened, status="incomplete")
    assert cut.calls == []
    assert cut.of(ToolInputEnd)[0].incomplete
    assert wire.steps(*opened).calls == [("f", '{"a"')]
    assert wire.answer(*opened).calls == []


def test_non_json_event_is_one_error(wire):
    """Reading continues."""
    answer = wire.answer(wire.text("a"), b"data: {nope\n\n", wire.text("b", 1), wire.completed())
    assert (answer.text, answer.errors) == ("ab", ["decode-error"])


def test_unknown_events_are_raw_on_request(wire):
    unknown = {"event_type": "step.sparkle", "index": 0}
    body = wire.body(unknown, wire.completed())
    assert wire.read(body).errors == []
    assert wire.read(body, include_raw=True).of(Raw)[0] == Raw(unknown)


def test_caps_end_the_stream(wire):
    call = [
        wire.start(0, "function_call", id="x", name="f"),
        wire.delta(0, "arguments_delta", arguments="x" * 99),
    ]
    assert wire.answer(*call, limits=StreamLimits(max_tool_input_bytes=50)).errors == ["limit-exceeded"]
    steps = [wire.text("a", n) for n in range(9)]
    assert wire.answer(*steps, limits=StreamLimits(max_blocks=5)).errors == ["limit-exceeded"]
    assert wire.answer(wire.text("x" * 500), limits=StreamLimits(max_event_bytes=100)).errors == [
        "limit-exceeded"
    ]


def test_halves_of_characters_meet_again(wire):
    answer = wire.answer(
        wire.start(0, "model_output"),
        b'data: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"a\\ud83d"}}\n\n',
        b'data: {"event_type":"step.delta","index":0,"delta":{"type":"text","text":"\\ude00"}}\n\n',
        b'data: {"event_type":"step.start","index":1,"step":{"type":"x_call","id":"\\ud83d"}}\n\n',
        wire.completed(),
    )
    assert answer.text == "a😀"
    assert all(isinstance(event, TextDelta) or "\ud83d" not in str(event) for event in answer.events)
