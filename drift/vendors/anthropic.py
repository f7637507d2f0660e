"""anthropic: Messages, by its beta unions, which hold all that the plain ones hold and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anthropic.types import message_stream_event, model
from anthropic.types.beta import beta_raw_message_stream_event
from anthropic.types.shared import error_details, error_response

from drift.filled import Rules, minimal
from drift.shapes import Field, Leaf, Record, shape_of
from drift.wires import Case, Reasons, Wire, encoded, json_text, options_of, tagged, values_of

PACKAGE = "anthropic"

_START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}
_STOP = {"type": "message_stop"}
_END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
_CLOSED = {"type": "content_block_stop", "index": 0}
# Deltas that are not called by their block.
_BLOCK_OF = {"input_json_delta": "tool_use", "citations_delta": "text", "signature_delta": "thinking"}


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The one wire."""
    rules = Rules(
        fixed={
            "*.partial_json": json_text,
            "*RedactedThinkingBlock.data": encoded,
            "BetaMessage.content": [],
            "*ContentBlock*Event.index": 0,
        },
        meaningless=meaningless.get("anthropic", {}),
    )
    events = tagged(shape_of(beta_raw_message_stream_event.BetaRawMessageStreamEvent))
    plain = tagged(shape_of(message_stream_event.MessageStreamEvent))
    blocks = tagged(events["content_block_start"].fields["content_block"].shape)
    deltas = tagged(events["content_block_delta"].fields["delta"].shape)
    ends = events["message_delta"].fields["delta"].shape
    assert isinstance(ends, Record)
    error = shape_of(error_response.ErrorResponse)
    handled = {"content_block_start", "content_block_delta", "message_start", "message_delta"}
    cases = [
        Case("message_start", events["message_start"], lambda value: [value, _END, _STOP]),
        Case("message_delta", events["message_delta"], lambda value: [_START, value, _STOP]),
        *(Case(f"block {block.name}", block, _block) for block in blocks.values()),
        *(_delta(delta, blocks, rules) for delta in deltas.values()),
        *(_other(event) for tag, event in {**plain, **events}.items() if tag not in handled),
        Case("error", error, lambda value: [_START, value]),
        Case("error.details", _details(), _with_details),
    ]
    reason = Reasons("stop_reason", values_of(ends.fields["stop_reason"].shape), _ended)
    yield Wire("anthropic", tuple(cases), (reason,), rules, values_of(shape_of(model.Model)))


def _block(value: Any) -> list[Any]:
    return [_START, {"type": "content_block_start", "index": 0, "content_block": value}, _CLOSED, _END, _STOP]


def _delta(delta: Record, blocks: Mapping[str, Record], rules: Rules) -> Case:
    """A delta in a block of its kind."""
    tag = delta.tag or ""
    kind = _BLOCK_OF.get(tag, tag.removesuffix("_delta"))
    block = minimal(blocks.get(kind, blocks["text"]), rules)
    if kind in ("text", "thinking"):
        block = block | {kind: ""}
    if kind == "tool_use":
        block = block | {"input": {}}

    def place(value: Any) -> list[Any]:
        start = {"type": "content_block_start", "index": 0, "content_block": block}
        change = {"type": "content_block_delta", "index": 0, "delta": value}
        return [_START, start, change, _CLOSED, _END, _STOP]

    return Case(f"delta {delta.name}", delta, place)


def _other(event: Record) -> Case:
    if event.tag == "message_stop":
        return Case("message_stop", event, lambda value: [_START, _END, value])
    opened = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}}
    return Case(event.tag or event.name, event, lambda value: [_START, opened, value, _CLOSED, _END, _STOP])


def _details() -> Record:
    """The codes of all errors as one type: the types of errors do not name their details."""
    kinds = options_of(shape_of(error_details.ErrorDetails))
    codes = Leaf(
        "string", tuple(code for kind in kinds for code in values_of(kind.fields["error_code"].shape))
    )
    return Record("ErrorDetails", lambda: {"error_code": Field(codes, True)})


def _with_details(value: Any) -> list[Any]:
    error = {"type": "invalid_request_error", "message": "no", "details": value}
    return [_START, {"type": "error", "error": error}]


def _ended(word: str) -> list[Any]:
    return [_START, _END | {"delta": {"stop_reason": word}}, _STOP]
