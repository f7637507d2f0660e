"""Open reasoning on the Responses wire: it comes as text and goes back as it came."""

from __future__ import annotations

import json

import pytest

from llmstream.accumulate import Accumulator
from llmstream.chats.message import Message
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import OtherWarning
from llmstream.grammar import check
from llmstream.providers.registry import find_provider
from llmstream.request import Request

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "status": "in_progress"}
THOUGHT = {**REASONING, "content": [{"type": "reasoning_text", "text": "Hm. So"}], "status": "completed"}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "status": "in_progress"}
SAID = {**MESSAGE, "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]}
USAGE = {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9}
HEAD = {"id": "resp_1", "object": "response", "model": "m", "output": []}


def at(item_id: str, place: int, kind: str, **more: str) -> dict[str, object]:
    return {"type": f"response.{kind}", "item_id": item_id, "output_index": place, "content_index": 0, **more}


EVENTS = [
    {"type": "response.created", "response": {**HEAD, "status": "in_progress"}},
    {"type": "response.in_progress", "response": {**HEAD, "status": "in_progress"}},
    {"type": "response.output_item.added", "output_index": 0, "item": REASONING},
    at("rs_1", 0, "reasoning_text.delta", delta="Hm. "),
    at("rs_1", 0, "reasoning_text.delta", delta="So"),
    at("rs_1", 0, "reasoning_text.done", text="Hm. So"),
    {"type": "response.output_item.done", "output_index": 0, "item": THOUGHT},
    {"type": "response.output_item.added", "output_index": 1, "item": MESSAGE},
    at("msg_1", 1, "output_text.delta", delta="Yes."),
    {"type": "response.output_item.done", "output_index": 1, "item": SAID},
    {
        "type": "response.completed",
        "response": {**HEAD, "status": "completed", "output": [THOUGHT, SAID], "usage": USAGE},
    },
]
BODY = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()


def read(name: str, *pieces: bytes):
    sentence = GuardedDecoder(find_provider(name).dialect.decoder(provider=name), provider=name)
    events = sentence.start()
    for piece in pieces:
        events = events + sentence.feed(piece)
    return events + sentence.close()


@pytest.mark.parametrize("name", ["mistral-responses", "deepseek-responses"])
def test_reasoning_goes_back_as_it_came(name):
    events = read(name, BODY)
    assert check(events) == []
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    answer = accumulator.message
    assert [type(part).__name__ for part in answer.parts] == ["Reasoning", "Text"]
    messages = (Message.user("Hi"), answer, Message.user("And?"))
    encoded = find_provider(name).dialect.encode(Request(model="m", messages=messages), provider=name)
    reasoning = encoded.http.json()["input"][1]
    assert (reasoning["type"], reasoning["id"]) == ("reasoning", "rs_1")
    assert reasoning["content"] == THOUGHT["content"]
    assert "include" not in encoded.http.json()
    assert not any(isinstance(warning, OtherWarning) for warning in encoded.warnings)


@pytest.mark.parametrize("name", ["mistral-responses", "deepseek-responses"])
def test_a_stream_is_read_at_every_cut(name):
    whole = read(name, BODY)
    assert read(name, *(BODY[at : at + 1] for at in range(len(BODY)))) == whole
    for cut in range(0, len(BODY), 7):
        assert read(name, BODY[:cut], BODY[cut:]) == whole
