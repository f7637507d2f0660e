"""Every field that the vendors' own clients know of an answer is in some event.

Each model of a chunk is filled by introspection, each leaf with a mark of its own, and read; a mark
that is in no event is a loss. What may be lost says nothing: names of types, places, the request.
"""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from llmstream import events as ev
from llmstream import grammar
from llmstream.dialects.base import Dialect
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.mistral import Mistral
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_responses import OpenAIResponses

pydantic = pytest.importorskip("pydantic", reason="comes with the vendors' clients")


class Filler:
    """Values for a model.

    fixed: values by the end of their path, where a mark would mean something else
    pick:  which member of a union, and of a list of words
    marks: path and value of each leaf
    """

    def __init__(self, fixed: Mapping[str, Any], pick: int) -> None:
        self._fixed = fixed
        self._pick = pick
        self.marks: dict[str, str] = {}

    def fill(self, kind: Any, path: str = "") -> Any:
        fixed = next((end for end in self._fixed if path.endswith(end)), None)
        if fixed is not None:
            return self._fixed[fixed]
        kind = _plain(kind)
        origin, members = get_origin(kind), [one for one in get_args(kind) if one is not type(None)]
        if origin in (Union, types.UnionType):
            members = [one for one in members if "Unset" not in str(one)]
            return self.fill(members[self._pick % len(members)], path)
        if origin is Literal:
            return members[self._pick % len(members)]
        if origin in (list, Sequence, typing.Sequence):
            inner = _plain(members[0])
            several = get_origin(inner) in (Union, types.UnionType)
            kinds = [one for one in get_args(inner) if "Unknown" not in str(one)] if several else [inner]
            return [self.fill(one, f"{path}[{place}]") for place, one in enumerate(kinds)]
        if origin in (dict, Mapping, typing.Mapping):
            return {self._mark(f"{path}.key", str): self.fill(members[1], f"{path}.value")}
        if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
            return self._model(kind, path)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return next(iter(kind)).value
        return True if kind is bool else self._mark(path, kind)

    def _model(self, kind: Any, path: str) -> dict[str, Any]:
        fields = {field.alias or name: field for name, field in kind.model_fields.items()}
        filled = {name: self.fill(field.annotation, f"{path}.{name}") for name, field in fields.items()}
        return {name: value for name, value in filled.items() if value is not None}

    def _mark(self, path: str, kind: Any) -> Any:
        number = len(self.marks) + 1
        value = 7_100_000 + number if kind is int else 0.5 + 7_200_000 + number if kind is float else None
        value = f"mark-{number}" if value is None else value
        self.marks[path] = json.dumps(value)
        return value


def _plain(kind: Any) -> Any:
    """A type without its annotations and aliases."""
    while True:
        if get_origin(kind) is Annotated or type(get_origin(kind)).__name__ == "TypeAliasType":
            kind = get_args(kind)[0]
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        else:
            return kind


def read(dialect: Dialect, body: bytes) -> list[ev.Event]:
    sentence = GuardedDecoder(dialect.decoder(provider="acme"), provider="acme")
    events = sentence.start() + sentence.feed(body) + sentence.close()
    assert grammar.check(events) == []
    return events


def sse(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def lost(marks: Mapping[str, str], events: Iterable[ev.Event], *meaningless: str) -> list[str]:
    said = b" ".join(ev.encode(event) for event in events).decode()
    return [
        path
        for path, value in marks.items()
        if value.strip('"') not in said and not path.endswith(meaningless)
    ]


PLACES = ("index", "item_id", "sequence_number", ".object", ".created", ".obfuscation", ".role", ".type")
CALLED = {".function.arguments": '{"a":1}', ".function_call.arguments": '{"a":1}', ".audio.data": "bWFyaw=="}
CHUNK = {".choices[0].index": 0, ".tool_calls[0].index": 0, ".finish_reason": None, ".created": 1790000000}


@pytest.mark.parametrize("pick", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_chunks_of_openai(pick: int, first: bool) -> None:
    chat = pytest.importorskip("openai.types.chat")
    filler = Filler({**CALLED, **CHUNK}, pick)
    chunk = filler.fill(chat.ChatCompletionChunk)
    frame = {"id": chunk["id"], "model": chunk["model"]}
    before = {**frame, "choices": [{"index": 0, "delta": {"content": "hi"}}]}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = read(OpenAIChat(), sse(*([] if first else [before]), chunk, last))
    assert lost(filler.marks, events, *PLACES) == []


ASKED = (
    *("instructions", "metadata", "temperature", "top_p", "tools", "max_output_tokens", "max_tool_calls"),
    *("previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "reasoning", "user"),
    *("safety_identifier", "text", "tool_choice", "top_logprobs"),
)
"""Fields of a response that repeat the request."""


@pytest.mark.parametrize("pick", [0, 1, 2])
@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_response_of_openai(pick: int, status: str) -> None:
    responses = pytest.importorskip("openai.types.responses")
    fixed = {".created_at": 1790000000, ".status": status, ".output": [], ".object": "response"}
    filler = Filler(fixed | {f".{name}": None for name in ASKED}, pick)
    response = filler.fill(responses.Response)
    if status != "failed":
        response.pop("error")
    events = read(OpenAIResponses(), sse({"type": f"response.{status}", "response": response}))
    marks = {
        path: mark for path, mark in filler.marks.items() if "error" in response or ".error." not in path
    }
    assert lost(marks, events) == []


@pytest.mark.parametrize("pick", [0, 1])
def test_output_items_of_openai(pick: int) -> None:
    responses = pytest.importorskip("openai.types.responses")
    for kind in get_args(_plain(responses.ResponseOutputItem)):
        filler = Filler({".arguments": "{}"}, pick)
        item = filler.fill(kind)
        where = {"output_index": 0, "item": item}
        opened, done = ({"type": f"response.output_item.{name}", **where} for name in ("added", "done"))
        last = {"type": "response.completed", "response": {"id": "r"}}
        assert lost(filler.marks, read(OpenAIResponses(), sse(opened, done, last))) == [], item["type"]


@pytest.mark.parametrize("pick", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_chunks_of_mistral(pick: int, first: bool) -> None:
    models = pytest.importorskip("mistralai.client.models")
    links = {".image_url.url": "https://a/", ".image_url": "https://b/", ".document_url": "https://c/"}
    filler = Filler({**CALLED, **CHUNK, **links}, pick)
    chunk = filler.fill(models.CompletionChunk)
    before = {"id": chunk["id"], "model": chunk["model"]}
    before["choices"] = [{"index": 0, "delta": {"content": "hi"}}]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = read(Mistral(), sse(*([] if first else [before]), chunk, last))
    assert lost(filler.marks, events, *PLACES, ".tool_call_id") == []


OPEN = {"content": {"type": "text", "text": ""}, "tool_calls": {"id": "c", "function": {"name": "f"}}}


@pytest.mark.parametrize("pick", [0, 1])
def test_events_of_cohere(pick: int) -> None:
    events = pytest.importorskip("cohere.v2.types.v2chat_stream_response")
    for kind in get_args(_plain(events.V2ChatStreamResponse)):
        name = kind.model_fields["type"].default
        fixed = {".arguments": "{}", ".index": 0, ".type": None, ".finish_reason": "COMPLETE"}
        filler = Filler(fixed, pick)
        event = {**filler.fill(kind), "type": name}
        starts = [{"type": "message-start", "id": event.get("id", "i")}]
        for field, begun in OPEN.items():
            started = {"type": f"{field.rstrip('s').replace('_', '-')}-start", "index": 0}
            if name.startswith(started["type"].removesuffix("start")) and not name.endswith("start"):
                starts.append({**started, "delta": {"message": {field: begun}}})
        last = {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}
        body = sse(*starts, event, *([] if name == "message-end" else [last]))
        assert lost(filler.marks, read(Cohere(), body), *PLACES) == [], name


def test_lines_of_ollama() -> None:
    models = pytest.importorskip("ollama._types")
    fixed = {".created_at": "2026-01-02T03:04:05Z", ".images": ["iVBORw0KGgo="], ".done": True}
    filler = Filler(fixed, 0)
    line = filler.fill(models.ChatResponse)
    events = read(Ollama(), json.dumps(line).encode() + b"\n")
    assert [event.data for event in events if isinstance(event, ev.File)] == [b"\x89PNG\r\n\x1a\n"]
    assert lost(filler.marks, events, *PLACES, ".tool_name") == []
