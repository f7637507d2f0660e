"""Streams of the Agent API: pages, thoughts, functions, failures.

Written after the types of perplexityai 0.46.1 and its migration guide (2026-11): every event is one line
of data, there is no name of the event and no mark at the end.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmstream import grammar
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Custom, ErrorEvent, Event, Finish, ReasoningDelta, Source, TextDelta, ToolCall
from llmstream.providers.perplexity import PERPLEXITY

USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "cost": {"total_cost": 0.01, "currency": "USD"},
    "tool_calls_details": {"search_web": {"invocation": 1}},
}
RESULTS = [
    {"id": 1, "url": "https://a.example/1", "title": "One", "snippet": "...", "date": "2026-11-01"},
    {"id": 2, "url": "https://a.example/2", "title": "Two", "snippet": "..."},
]
FOUND = {"type": "search_results", "queries": ["needles"], "results": RESULTS}
FETCHED = {
    "type": "fetch_url_results",
    "contents": [
        {"url": "https://a.example/1", "title": "One", "snippet": "..."},
        {"url": "https://a.example/3", "title": "Three", "snippet": "..."},
    ],
}
CITED = [
    {"type": "url_citation", "url": "https://a.example/2", "title": "Two", "start_index": 0, "end_index": 3}
]
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes [1][2].", "annotations": CITED}],
}


def response(status: str, *output: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = {"id": "resp_1", "object": "response", "created_at": 1790000000, "model": "perplexity/sonar"}
    return {**named, "status": status, "output": list(output), **more}


ANSWER: list[dict[str, Any]] = [
    {"type": "response.created", "response": response("in_progress")},
    {"type": "response.in_progress", "response": response("in_progress")},
    {"type": "response.reasoning.started", "thought": "I have to look."},
    {"type": "response.reasoning.search_queries", "queries": ["needles"], "thought": None},
    {"type": "response.reasoning.search_results", "results": RESULTS},
    {"type": "response.reasoning.stopped", "thought": ""},
    {"type": "response.output_item.added", "output_index": 0, "item": FOUND},
    {"type": "response.output_item.done", "output_index": 0, "item": FOUND},
    {"type": "response.output_item.done", "output_index": 1, "item": FETCHED},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {**MESSAGE, "content": [], "status": "in_progress"},
    },
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 2,
        "content_index": 0,
        "delta": "Yes ",
    },
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 2,
        "content_index": 0,
        "delta": "[1][2].",
    },
    {
        "type": "response.output_text.done",
        "item_id": "msg_1",
        "output_index": 2,
        "content_index": 0,
        "text": "Yes [1][2].",
    },
    {"type": "response.output_item.done", "output_index": 2, "item": MESSAGE},
    {"type": "response.completed", "response": response("completed", FOUND, FETCHED, MESSAGE, usage=USAGE)},
]


def bytes_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(
        b"data: " + json.dumps({**event, "sequence_number": place}).encode() + b"\n\n"
        for place, event in enumerate(events)
    )


def read(body: bytes, *cuts: int) -> list[Event]:
    sentence = GuardedDecoder(PERPLEXITY.dialect.decoder(provider="perplexity"), provider="perplexity")
    events = sentence.start()
    for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True):
        events += sentence.feed(body[start:end])
    events += sentence.close()
    assert grammar.check(events) == []
    return events


def test_pages_are_sources_once() -> None:
    found = [event for event in read(bytes_of(ANSWER)) if isinstance(event, Source)]
    assert [(source.url, source.title) for source in found] == [
        ("https://a.example/1", "One"),
        ("https://a.example/2", "Two"),
        ("https://a.example/3", "Three"),
    ]
    metadata = found[0].provider_metadata or {}
    assert metadata["openai"] == {
        "type": "url_citation",
        "url": "https://a.example/1",
        "title": "One",
        "date": "2026-11-01",
        "result_id": 1,
    }


def test_unsearched_url_is_a_source_too() -> None:
    events = read(bytes_of([*ANSWER[:2], *ANSWER[9:]]))
    assert [event.url for event in events if isinstance(event, Source)] == ["https://a.example/2"]


def test_the_items_stay_whole() -> None:
    kept = [event for event in read(bytes_of(ANSWER)) if isinstance(event, Custom)]
    assert [event.kind for event in kept] == ["openai.search_results", "openai.fetch_url_results"]
    assert (kept[0].provider_metadata or {})["openai"]["item"] == FOUND


def test_thoughts_text_and_costs_are_read() -> None:
    events = read(bytes_of(ANSWER))
    assert "".join(e.delta for e in events if isinstance(e, ReasoningDelta)) == "I have to look."
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "Yes [1][2]."
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.finish_reason, finish.usage.input_tokens, finish.usage.output_tokens) == ("stop", 100, 20)
    assert (finish.usage.raw or {})["cost"]["total_cost"] == 0.01


def test_a_function_is_called() -> None:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{"n":1}',
        "status": "completed",
        "thought_signature": "sig",
    }
    events = read(
        bytes_of(
            [
                ANSWER[0],
                {"type": "response.output_item.added", "output_index": 0, "item": call},
                {"type": "response.output_item.done", "output_index": 0, "item": call},
                {"type": "response.completed", "response": response("completed", call, usage=USAGE)},
            ]
        )
    )
    (found,) = [event for event in events if isinstance(event, ToolCall)]
    assert (found.tool_name, found.input) == ("look", '{"n":1}')
    assert (found.provider_metadata or {})["openai"]["thought_signature"] == "sig"
    assert isinstance(events[-1], Finish)
    assert events[-1].finish_reason == "tool-calls"


def test_error_beside_the_response_is_read() -> None:
    failed = {
        "type": "response.failed",
        "error": {"message": "upstream died", "type": "bad_gateway", "code": 502},
    }
    events = read(bytes_of([ANSWER[0], failed]))
    (error,) = [event for event in events if isinstance(event, ErrorEvent)]
    assert "upstream died" in error.error.message


def test_any_cut_gives_the_same() -> None:
    body = bytes_of(ANSWER)
    whole = read(body)
    for cut in range(1, len(body), 7):
        assert _text(read(body, cut)) == _text(whole)
    assert _text(read(body, *range(1, len(body)))) == _text(whole)


@pytest.mark.parametrize("count", range(len(ANSWER)))
def test_truncated_stream_keeps_the_grammar(count: int) -> None:
    read(bytes_of(ANSWER[:count]))


def _text(events: list[Event]) -> list[object]:
    """What was said, whatever the fragments."""
    kinds = [type(event).__name__ for event in events if not isinstance(event, TextDelta)]
    return [kinds, "".join(event.delta for event in events if isinstance(event, TextDelta))]
