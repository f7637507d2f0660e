"""mistralai: chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mistralai.client import models

from drift.filled import Rules
from drift.shapes import Record, shape_of
from drift.wires import Case, Reasons, Wire, json_text, values_of

PACKAGE = "mistralai"


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The one wire."""
    chunk, choice = shape_of(models.CompletionChunk), shape_of(models.CompletionResponseStreamChoice)
    assert isinstance(chunk, Record)
    assert isinstance(choice, Record)
    rules = Rules(
        fixed={"*Choice.index": 0, "DeltaMessage.index": 0, "ToolCall.index": 0, "*.arguments": json_text},
        meaningless=meaningless.get("mistral", {}),
    )
    reasons = Reasons("finish_reason", values_of(choice.fields["finish_reason"].shape), _ended)
    case = Case(chunk.name, chunk, lambda value: [value, "[DONE]"])
    yield Wire("mistral", (case,), (reasons,), rules)


def _ended(word: str) -> list[Any]:
    choice = {"index": 0, "delta": {"content": "text"}, "finish_reason": word}
    return [{"id": "c", "model": "m", "choices": [choice]}, "[DONE]"]
