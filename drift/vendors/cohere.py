"""cohere: Chat, version 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cohere.v2.types import v2chat_stream_response

from drift.filled import Rules
from drift.shapes import Record, Shape, shape_of
from drift.wires import Case, Reasons, Wire, json_text, tagged, values_of

PACKAGE = "cohere"

_START = {"type": "message-start", "id": "msg_1", "delta": {"message": {"role": "assistant"}}}
_END = {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The one wire."""
    rules = Rules(
        fixed={"*.index": 0, "*.arguments": json_text},
        alone={
            "ChatContentDeltaEventDeltaMessageContent": {},
            "ChatContentStartEventDeltaMessageContent": {"type": ()},
        },
        meaningless=meaningless.get("cohere", {}),
    )
    events = tagged(shape_of(v2chat_stream_response.V2ChatStreamResponse))
    end = events["message-end"].fields["delta"].shape
    assert isinstance(end, Record)
    reasons = Reasons("finish_reason", values_of(end.fields["finish_reason"].shape), _ended)
    yield Wire("cohere", tuple(map(_case, events.values())), (reasons,), rules)


def _case(event: Record) -> Case:
    """An event between the others of its block."""
    tag = event.tag or ""
    start, end = _around(tag)
    first = [] if tag == "message-start" else [_START]
    last = [] if tag == "message-end" else [_END]
    return Case(event.name, event, lambda value: [*first, *start, value, *end, *last])


def _around(tag: str) -> tuple[list[Any], list[Any]]:
    content = {"type": "text", "text": ""}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}
    starts: dict[str, Shape | Any] = {
        "content": {"type": "content-start", "index": 0, "delta": {"message": {"content": content}}},
        "tool-call": {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}},
    }
    kind, _, step = tag.rpartition("-")
    if kind == "citation":
        return [starts["content"]], [{"type": "content-end", "index": 0}]
    if kind not in starts:
        return [], []
    before = [] if step == "start" else [starts[kind]]
    after = [] if step == "end" else [{"type": f"{kind}-end", "index": 0}]
    return before, after


def _ended(word: str) -> list[Any]:
    return [_START, {"type": "message-end", "delta": {"finish_reason": word}}]
