"""google-genai: generateContent and Interactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.genai import types
from google.genai._gaos.types import interactions

from drift.filled import Rules, minimal
from drift.shapes import Leaf, Record, Shape, shape_of
from drift.wires import Case, Reasons, Wire, encoded, json_text, tagged, values_of

PACKAGE = "google-genai"

_FILES = ("fileData", "inlineData")
# Fields of a part that say something of its content. All others are the content, one at a time.
_BESIDE: Mapping[str, tuple[str, ...]] = {
    "audioMetadata": _FILES,
    "documentMetadata": _FILES,
    "mediaProcessing": _FILES,
    "mediaResolution": _FILES,
    "partMetadata": (),
    "speechMetadata": ("text",),
    "spreadsheetMetadata": _FILES,
    "thought": ("text", "inlineData"),
    "thoughtSignature": (),
    "videoMetadata": _FILES,
}


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The two wires."""
    models = values_of(shape_of(interactions.Model))
    yield _generate(meaningless.get("gemini", {}), models)
    yield _interactions(meaningless.get("gemini-interactions", {}), models)


# generateContent.


def _generate(meaningless: Mapping[str, str], models: tuple[str, ...]) -> Wire:
    chunk = shape_of(types.GenerateContentResponse)
    assert isinstance(chunk, Record)
    rules = Rules(
        fixed={
            "Candidate.index": 0,
            "Candidate.finishReason": "MAX_TOKENS",  # with which a continuation token comes
            "Content.parts": [{"text": "text"}],
            "PartialArg.jsonPath": lambda mark: f"$.{mark}",
            "PartialArg.willContinue": False,
            "FunctionCall.willContinue": False,
        },
        alone={
            "Part": _BESIDE,
            "FunctionCall": {"id": (), "name": (), "willContinue": ("partialArgs",)},
            "PartialArg": {"jsonPath": (), "willContinue": ("stringValue",)},
        },
        meaningless=meaningless,
    )
    part = shape_of(types.Part)
    return Wire(
        "gemini",
        (
            Case(chunk.name, chunk, lambda value: [value]),
            Case("part Part", part, lambda value: [_chunk([value]), _chunk([], finishReason="STOP")]),
        ),
        (
            Reasons("finishReason", values_of(shape_of(types.FinishReason)), _ended),
            Reasons("blockReason", values_of(shape_of(types.BlockedReason)), _blocked),
        ),
        rules,
        models,
    )


def _chunk(parts: list[Any], **fields: Any) -> Any:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, **fields}]}


def _ended(word: str) -> list[Any]:
    return [_chunk([{"text": "text"}], finishReason=word)]


def _blocked(word: str) -> list[Any]:
    return [{"promptFeedback": {"blockReason": word}}]


# Interactions.

_CREATED = {
    "event_type": "interaction.created",
    "interaction": {"id": "int_1", "status": "in_progress", "model": "gemini"},
}
_COMPLETED = {"event_type": "interaction.completed", "interaction": {"id": "int_1", "status": "completed"}}
_STOPPED = {"event_type": "step.stop", "index": 0}
# Deltas that are not called by their step. Those of no step are content of the model's output.
_STEP_OF = {"arguments_delta": "function_call"}


def _interactions(meaningless: Mapping[str, str], models: tuple[str, ...]) -> Wire:
    rules = Rules(
        fixed={
            "*.index": 0,
            "ArgumentsDelta.arguments": json_text,
            "AudioDelta.mime_type": "audio/l16",
            "AudioContent.mime_type": "audio/l16",
            "*.data": encoded,
            "InteractionSseEventInteraction.steps": [],
            "InteractionSseEventInteraction.status": "requires_continuation",
        },
        meaningless=meaningless,
    )
    events = tagged(shape_of(interactions.InteractionSSEEvent))
    steps = tagged(events["step.start"].fields["step"].shape)
    deltas = tagged(events["step.delta"].fields["delta"].shape)
    status = events["interaction.status_update"].fields["status"].shape
    cases = [
        *(Case(f"step {step.name}", step, _step) for step in steps.values()),
        *(_delta(delta, steps, rules) for delta in deltas.values()),
        *(_event(event) for event in events.values()),
        Case("Interaction, failed", _errors(), _failed),
    ]
    reasons = Reasons("status", values_of(status), _with_status)
    return Wire("gemini-interactions", tuple(cases), (reasons,), rules, models)


def _step(value: Any) -> list[Any]:
    return [_CREATED, {"event_type": "step.start", "index": 0, "step": value}, _STOPPED, _COMPLETED]


def _delta(delta: Record, steps: Mapping[str, Record], rules: Rules) -> Case:
    """A delta in a step of its kind."""
    tag = delta.tag or ""
    kind = _STEP_OF.get(tag, "thought" if tag.startswith("thought") else tag)
    step = minimal(steps[kind], rules) if kind in steps else {"type": "model_output"}
    before = [{"type": "text", "text": "text"}] if tag == "text_annotation_delta" else []

    def place(value: Any) -> list[Any]:
        changes = [{"event_type": "step.delta", "index": 0, "delta": change} for change in (*before, value)]
        return [
            _CREATED,
            {"event_type": "step.start", "index": 0, "step": step},
            *changes,
            _STOPPED,
            _COMPLETED,
        ]

    return Case(f"delta {delta.name}", delta, place)


def _event(event: Record) -> Case:
    """An event, with no more than has to be in the step or delta that it carries."""
    inner: dict[str, Shape] = {}
    for name in ("step", "delta"):
        if name in event.fields:
            inner[name] = Leaf("any")
    shape = _without(event, tuple(inner))
    started = {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
    filling = {"step": {"type": "model_output"}, "delta": {"type": "text", "text": "text"}}
    last = [] if event.tag in ("interaction.completed", "error") else [_COMPLETED]
    before: list[Any] = [] if event.tag == "interaction.created" else [_CREATED]
    if event.tag in ("step.delta", "step.stop"):
        before = [*before, started]

    def place(value: Any) -> list[Any]:
        return [*before, value | {name: filling[name] for name in inner}, *last]

    return Case(event.name, shape, place)


def _without(record: Record, names: tuple[str, ...]) -> Record:
    return Record(record.name, lambda: {n: f for n, f in record.fields.items() if n not in names})


def _errors() -> Record:
    """What the type of the event lacks, and the wire has."""
    complete = shape_of(interactions.Interaction)
    assert isinstance(complete, Record)
    return Record(complete.name, lambda: {"errors": complete.fields["errors"]})


def _failed(value: Any) -> list[Any]:
    return [_CREATED, _COMPLETED | {"interaction": {"id": "int_1", "status": "failed", **value}}]


def _with_status(word: str) -> list[Any]:
    return [_CREATED, {"event_type": "interaction.completed", "interaction": {"id": "int_1", "status": word}}]
