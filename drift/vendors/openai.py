"""openai: Chat Completions and Responses."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypedDict

from openai.types import chat, responses
from openai.types.beta import beta_response_output_item
from openai.types.shared import chat_model, responses_model

from drift.filled import Rules, minimal
from drift.shapes import Record, Shape, shape_of
from drift.wires import Case, Reasons, Wire, encoded, json_text, options_of, tagged, values_of

PACKAGE = "openai"


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The two wires."""
    yield _chat(meaningless.get("openai-chat", {}))
    yield _responses(meaningless.get("openai-responses", {}))


# Chat Completions.


def _chat(meaningless: Mapping[str, str]) -> Wire:
    chunk = shape_of(chat.ChatCompletionChunk)
    assert isinstance(chunk, Record)
    rules = Rules(
        fixed={
            "*.index": 0,
            "*.arguments": json_text,
            "Choice.delta": {"role": "assistant", "content": "text"},
            "ChoiceDeltaAudio.data": encoded,
        },
        alone={"ChoiceDelta": {"role": ()}},
        meaningless=meaningless,
    )
    choice = _item(chunk.fields["choices"].shape)
    delta = _item(choice.fields["delta"].shape)
    return Wire(
        "openai-chat",
        (
            # What is said of the complete answer comes in a last chunk without choices.
            Case(chunk.name, chunk, lambda value: [value, value | {"choices": []}, "[DONE]"]),
            Case(
                "delta of a custom call",
                shape_of(CustomCall),
                lambda value: [_calls(value), _CALLED, "[DONE]"],
            ),
            Case(f"delta {delta.name}", delta, lambda value: [_chunk(value), _chunk({}, "stop"), "[DONE]"]),
        ),
        (Reasons("finish_reason", values_of(choice.fields["finish_reason"].shape), _ended),),
        rules,
        values_of(shape_of(chat_model.ChatModel)),
    )


class CustomInput(TypedDict):
    """The text of such a call, which is no JSON."""

    name: str
    input: str


class CustomCall(TypedDict):
    """What the SDK for Node knows (7.57, 2026-11) and this one does not; remove it once this one does."""

    index: int
    id: str
    type: Literal["custom"]
    custom: CustomInput


def _item(shape: Shape) -> Record:
    inner = getattr(shape, "item", shape)
    assert isinstance(inner, Record)
    return inner


def _chunk(delta: Any, reason: str | None = None) -> Any:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


def _calls(call: Any) -> Any:
    return _chunk({"tool_calls": [call]})


_CALLED = _chunk({}, "tool_calls")


def _ended(word: str) -> list[Any]:
    return [_chunk({"content": "text"}, word), "[DONE]"]


# Responses.

_CREATED = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "output": []}}
_COMPLETED = {
    "type": "response.completed",
    "sequence_number": 9,
    "response": {"id": "resp_1", "status": "completed", "output": []},
}
# Fields of an item that are empty when it is opened.
_COMES_LATER = ("arguments", "code", "encrypted_content", "input", "output", "result", "status")
# Events whose names begin with no item's type, to that type.
_PROSE = {
    "response.reasoning": "reasoning",
    "response.output_text": "message",
    "response.content_part": "message",
    "response.refusal": "message",
}


def _responses(meaningless: Mapping[str, str]) -> Wire:
    rules = Rules(
        fixed={
            "*.output_index": 0,
            "*.content_index": 0,
            "*.summary_index": 0,
            "*.item_id": "item_1",
            "*.arguments": json_text,
            "ImageGenerationCall.result": encoded,
            "ResponseAudioDeltaEvent.delta": encoded,
            "ResponseImageGenCallPartialImageEvent.partial_image_b64": encoded,
            "Response.output": [],
            "ResponseOutputItemDoneEvent.item": {"type": "message", "id": "item_1", "content": []},
        },
        meaningless=meaningless,
    )
    items = _items()
    events = options_of(shape_of(responses.ResponseStreamEvent))
    names = tagged(shape_of(responses.ResponseStreamEvent))
    response = names["response.completed"].fields["response"].shape
    assert isinstance(response, Record)
    return Wire(
        "openai-responses",
        (*(_event(event, items, rules) for event in events), *(_item_case(item, rules) for item in items)),
        tuple(_reasons(response)),
        rules,
        values_of(shape_of(responses_model.ResponsesModel)),
    )


def _items() -> tuple[Record, ...]:
    """The items of answers; of the beta's those that are new."""
    plain = options_of(shape_of(responses.ResponseOutputItem))
    known = {item.tag for item in plain}
    beta = options_of(shape_of(beta_response_output_item.BetaResponseOutputItem))
    return (*plain, *(item for item in beta if item.tag not in known))


def _event(event: Record, items: tuple[Record, ...], rules: Rules) -> Case:
    """An event after the item that it belongs to."""
    tag = event.tag or ""
    if "response" in event.fields:
        return Case(event.name, event, functools.partial(_of_response, tag))
    before = [_CREATED]
    after: list[Any] = []
    item = _item_of(tag, items) if "item_id" in event.fields else None
    if item is not None:
        opening = {"id": "item_1", "type": item.tag}
        added = {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": minimal(item, rules) | opening,
        }
        before = [*before, added]
        if tag.endswith(".delta"):
            after = [{"type": "response.output_item.done", "output_index": 0, "item": added["item"]}]
    ended = [] if tag == "error" else [_COMPLETED]

    def place(value: Any) -> list[Any]:
        return [*before, value, *(_with_text(done, value["delta"]) for done in after), *ended]

    return Case(event.name, event, place)


def _with_text(done: Any, text: Any) -> Any:
    """The end of an item whose text came in deltas: it has the text once more."""
    again = {name: text for name in ("arguments", "code", "input") if name in done["item"]}
    return done | {"item": done["item"] | again}


def _of_response(tag: str, value: Any) -> list[Any]:
    """An event that carries the response: as a failed one only if it failed, and only then with the error."""
    kind = tag.removeprefix("response.")
    absent = {"completed": ("error", "incomplete_details"), "failed": ("incomplete_details",)}
    gone = absent.get(kind, ("error",))
    response = {name: inner for name, inner in value["response"].items() if name not in gone}
    response["status"] = kind if kind in ("completed", "failed", "incomplete") else "in_progress"
    event = value | {"response": response}
    if kind in ("created", "queued", "in_progress"):
        return [event, _COMPLETED]
    return [_CREATED | {"response": {"id": response["id"], "model": response["model"], "output": []}}, event]


def _item_of(tag: str, items: tuple[Record, ...]) -> Record | None:
    """The item that an event tells of: response.mcp_call.failed is of an mcp_call."""
    prose = next((kind for start, kind in _PROSE.items() if tag.startswith(start)), None)
    name = tag.removeprefix("response.")
    found = [i for i in items if i.tag and (i.tag == prose or (prose is None and name.startswith(i.tag)))]
    return max(found, key=lambda item: len(item.tag or ""), default=None)


def _item_case(item: Record, rules: Rules) -> Case:
    """An item as it is opened, and then complete."""
    start = minimal(item, rules)

    def place(value: Any) -> list[Any]:
        known = {k: v for k, v in value.items() if isinstance(v, str) and k not in _COMES_LATER}
        opened = start | known
        return [
            _CREATED,
            {"type": "response.output_item.added", "output_index": 0, "item": opened},
            {"type": "response.output_item.done", "output_index": 0, "item": value},
            _COMPLETED,
        ]

    return Case(f"item {item.name}", item, place)


def _reasons(response: Record) -> Iterator[Reasons]:
    details, error = response.fields["incomplete_details"].shape, response.fields["error"].shape
    assert isinstance(details, Record)
    assert isinstance(error, Record)
    yield Reasons("incomplete_details.reason", values_of(details.fields["reason"].shape), _incomplete)
    yield Reasons("error.code", values_of(error.fields["code"].shape), _failed)


def _incomplete(word: str) -> list[Any]:
    ended = {"id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": word}, "output": []}
    return [_CREATED, {"type": "response.incomplete", "response": ended}]


def _failed(word: str) -> list[Any]:
    ended = {"id": "resp_1", "status": "failed", "error": {"code": word, "message": "no"}, "output": []}
    return [_CREATED, {"type": "response.failed", "response": ended}]
