"""Answers over a WebSocket: every recording as over HTTP, and answers that are steered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmstream import grammar
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.dialects.openai_responses.sockets import ResponsesSockets
from llmstream.errors import BadRequest, IncompleteStream, RateLimited
from llmstream.events import (
    Custom,
    Finish,
    Raw,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side

ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "French"}]}
STEER = {"type": "response.steer", "previous_response_id": "resp_1", "input": [ITEM]}
TAKEN = {"type": "response.steer.accepted", "steer": {"id": "steer_1", "previous_response_id": "resp_1"}}
WAITS = {"type": "response.steer.pending", "steer": TAKEN["steer"], "required_input": []}


def refused(number: str | None = None) -> dict[str, Any]:
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": "No."}
    return {"type": "response.steer.failed", "steer": {"id": number, "input": [ITEM]}, "error": error}


def framed(*messages: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(message).encode() + b"\n\n" for message in messages)


def created(number: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": number, "model": "gpt-5"}}


def text(words: str, *, whole: bool = True) -> list[dict[str, Any]]:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    done = {**item, "content": [{"type": "output_text", "text": words, "annotations": []}]}
    place: dict[str, Any] = {"output_index": 0, "content_index": 0}
    begun = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", **place, "delta": words},
    ]
    return (
        [*begun, {"type": "response.output_item.done", "output_index": 0, "item": done}] if whole else begun
    )


CALL = {
    "type": "response.output_item.done",
    "output_index": 1,
    "item": {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "clock", "arguments": "{}"},
}


def ended(number: str, kind: str = "completed", why: str | None = None) -> dict[str, Any]:
    response: dict[str, Any] = {
        "id": number,
        "status": kind,
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    if why is not None:
        response["incomplete_details"] = {"reason": why}
    return {"type": f"response.{kind}", "response": response}


STEERED = [
    created("resp_1"),
    *text("Hello", whole=False),
    STEER,
    TAKEN,
    ended("resp_1", "incomplete", "steered"),
    created("resp_2"),
    *text("Salut"),
    ended("resp_2"),
]


def sentence(**options: Any) -> GuardedDecoder:
    decoder = ResponsesSockets(Quirks()).socket_decoder(provider="openai-responses", **options)
    return GuardedDecoder(decoder, provider="openai-responses")


def events_of(*chunks: bytes, **options: Any) -> list[Any]:
    told = sentence(**options)
    events = told.start()
    for chunk in chunks:
        events += told.feed(chunk)
    events += told.close()
    assert grammar.check(events) == []
    return events


def test_every_recording_is_as_over_http(recording) -> None:
    body = recording.read_bytes()
    over_http = GuardedDecoder(
        OpenAIResponses().decoder(provider="openai-responses"), provider="openai-responses"
    )
    assert events_of(body) == over_http.start() + over_http.feed(body) + over_http.close()


def test_a_steered_answer_is_one_sentence() -> None:
    kinds = [type(event) for event in events_of(framed(*STEERED))[1:]]
    block = [TextStart, TextDelta, TextEnd]
    assert kinds == [ResponseMetadata, *block, Custom, ResponseMetadata, *block, Finish]


def test_cut_anywhere_it_says_the_same() -> None:
    body = framed(*STEERED)
    whole = events_of(body)
    assert events_of(*(body[place : place + 1] for place in range(len(body)))) == whole
    assert all(events_of(body[:place], body[place:]) == whole for place in range(len(body)))


@pytest.mark.parametrize("count", range(len(STEERED)))
def test_broken_off_it_is_not_complete(count: int) -> None:
    told = sentence()
    events = told.start() + told.feed(framed(*STEERED[:count])) + told.close()
    assert grammar.check(events) == []
    assert isinstance(told.error, IncompleteStream)


def test_input_stands_where_it_took_effect() -> None:
    (event,) = [event for event in events_of(framed(*STEERED)) if isinstance(event, Custom)]
    assert event.kind == "openai.steering"
    assert event.provider_metadata["openai"]["item"] == ITEM


def test_input_is_not_written_as_output() -> None:
    """The answer of one server, passed on by another: the user's words are not the model's."""
    encoder = server_side(OpenAIResponses()).event_encoder(Request(model="gpt-5"))
    body = b"".join(encoder.feed(event) for event in events_of(framed(*STEERED))) + encoder.close()
    assert b"French" not in body
    assert b"Salut" in body


def test_tokens_are_those_of_all_responses() -> None:
    finish = events_of(framed(*STEERED))[-1]
    assert (finish.usage.input_tokens, finish.usage.output_tokens) == (6, 4)
    assert finish.usage.raw is None or isinstance(finish.usage, Usage)


def test_successor_may_follow_completion() -> None:
    first = [created("resp_1"), *text("Hello"), STEER, ended("resp_1")]
    events = events_of(framed(*first, TAKEN, created("resp_2"), *text("Salut"), ended("resp_2")))
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["Hello", "Salut"]
    assert sum(isinstance(event, Finish) for event in events) == 1


def test_refused_input_leaves_no_trace() -> None:
    plain = [created("resp_1"), *text("Hello"), ended("resp_1")]
    for place in range(1, 5):
        asked = [*plain[:place], STEER, *plain[place:]]
        assert events_of(framed(*asked, refused())) == events_of(framed(*plain))


def test_failed_successor_ends_the_response() -> None:
    events = events_of(framed(*STEERED[:6], refused("steer_1")))
    assert events[-1].raw_finish_reason == "steered"
    assert not any(isinstance(event, Custom) for event in events)


def test_input_awaiting_results_ends_step() -> None:
    calls = [created("resp_1"), *text("I look."), CALL, STEER, TAKEN, ended("resp_1"), WAITS]
    kinds = [type(event) for event in events_of(framed(*calls))]
    assert kinds[-3:] == [ToolCall, Custom, Finish]


def test_raw_messages_of_both_sides_shown() -> None:
    events = events_of(framed(*STEERED), include_raw=True)
    assert [event.raw_value for event in events if isinstance(event, Raw)] == STEERED


def test_an_error_has_the_status_of_http() -> None:
    error = {"code": "slow_down", "message": "Later.", "headers": {"Retry-After": "7", "X-Request-Id": "r1"}}
    told = sentence()
    told.feed(framed(created("resp_1"), {"type": "error", "status": 429, "error": error}))
    assert isinstance(told.error, RateLimited)
    assert (told.error.retry_after_s, told.error.request_id, told.error.reason) == (7.0, "r1", "slow_down")


@pytest.mark.parametrize("status", [None, "429", 200, [], True])
def test_error_without_status_reads_as_http(status: object) -> None:
    told = sentence()
    told.feed(
        framed({"type": "error", "status": status, "error": {"code": "invalid_prompt", "message": "x"}})
    )
    assert isinstance(told.error, BadRequest)


def test_socket_expiry_may_be_retried() -> None:
    error = {"code": "websocket_connection_limit_reached", "message": "60 minutes"}
    told = sentence()
    told.feed(framed(created("resp_1"), {"type": "error", "status": 400, "error": error}))
    assert told.error is not None
    assert told.error.retryable


@pytest.mark.parametrize("junk", [{}, {"steer": 1}, {"steer": {"id": [1]}}, {"error": "no"}, {"input": 7}])
@pytest.mark.parametrize("kind", ["", ".accepted", ".pending", ".failed", ".dance"])
def test_strange_steering_breaks_nothing(kind: str, junk: dict[str, Any]) -> None:
    strange = {"type": f"response.steer{kind}", **junk}
    told = sentence()
    plain = [created("resp_1"), *text("Hello"), ended("resp_1")]
    events = told.start() + told.feed(framed(plain[0], strange, strange, *plain[1:], refused(), refused()))
    events += told.close()
    assert grammar.check(events) == []
    assert told.error is None
