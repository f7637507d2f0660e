"""botocore: Converse of Bedrock, by the service model that it ships."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.session import get_session  # type: ignore[import-untyped]  # it has no stubs

from drift.filled import Rules
from drift.shapes import Record, Shape, shape_of_botocore
from drift.wires import Case, Reasons, Wire, as_aws, json_text, options_of, values_of

PACKAGE = "botocore"

_START = {"messageStart": {"role": "assistant"}}
_END = [
    {"messageStop": {"stopReason": "end_turn"}},
    {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 1}}},
]
_CLOSED = {"contentBlockStop": {"contentBlockIndex": 0}}
_BLOCKS: Mapping[str, Any] = {
    "toolUse": {"toolUseId": "call_1", "name": "look"},
    "toolResult": {"toolUseId": "call_1", "type": "nova_code_interpreter_result", "status": "success"},
    "image": {"format": "png"},
}


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The one wire."""
    rules = Rules(
        fixed={"*.contentBlockIndex": 0, "ToolUseBlockDelta.input": json_text},
        alone={"ImageBlockDelta": {}},
        meaningless=meaningless.get("bedrock-converse", {}),
    )
    model = get_session().get_service_model("bedrock-runtime")
    stream = shape_of_botocore(model.operation_model("ConverseStream").output_shape.members["stream"])
    assert isinstance(stream, Record)
    cases = [case for name, field in stream.fields.items() for case in _cases(name, field.shape)]
    stop = stream.fields["messageStop"].shape
    assert isinstance(stop, Record)
    reasons = Reasons("stopReason", values_of(stop.fields["stopReason"].shape), _ended)
    yield Wire("bedrock-converse", tuple(cases), (reasons,), rules, framed=as_aws)


def _cases(name: str, event: Shape) -> Iterator[Case]:
    """An event of the stream; of deltas and starts of blocks one for each kind."""
    assert isinstance(event, Record)
    if name == "contentBlockDelta":
        yield from map(_delta, options_of(event.fields["delta"].shape))
        return
    if name == "contentBlockStart":
        yield from map(_started, options_of(event.fields["start"].shape))
        return
    before: list[Any] = [] if name == "messageStart" else [_START]
    after = [] if name.endswith("Exception") or name in ("metadata", "messageStop") else _END
    if name == "messageStop":
        after = _END[1:]
    if name == "metadata":
        before = [_START, _END[0]]
    yield Case(event.name, event, lambda value: [*before, {name: value}, *after])


def _delta(option: Record) -> Case:
    (kind,) = option.fields
    opening = {"contentBlockStart": {"start": {kind: _BLOCKS.get(kind)}, "contentBlockIndex": 0}}
    start = [opening] if kind in _BLOCKS else []

    def place(value: Any) -> list[Any]:
        change = {"contentBlockDelta": {"delta": value, "contentBlockIndex": 0}}
        return [_START, *start, change, _CLOSED, *_END]

    return Case(option.name, option, place)


def _started(option: Record) -> Case:
    def place(value: Any) -> list[Any]:
        start = {"contentBlockStart": {"start": value, "contentBlockIndex": 0}}
        return [_START, start, _CLOSED, *_END]

    return Case(option.name, option, place)


def _ended(word: str) -> list[Any]:
    return [_START, {"messageStop": {"stopReason": word}}, _END[1]]
