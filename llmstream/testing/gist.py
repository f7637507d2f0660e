"""What a sentence says, apart from how it was cut into events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.events import (
    Event,
    File,
    Finish,
    ReasoningDelta,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextStart,
    ToolCall,
)

__all__ = ["Gist", "gist", "with_numbered_ids"]

Gist: TypeAlias = list[tuple[str, Any]]
"""What was said, in order: (kind, what)."""

_ID_FIELDS: Final = ("id", "tool_call_id", "approval_id")


def gist(events: Iterable[Event]) -> Gist:
    """Texts, reasoning, calls with their input as a value, files, and how it ended with how many tokens.

    Ids, metadata, blocks that hold nothing and the bounds of deltas are left out.
    """
    fragments: dict[str, list[str]] = {}
    said: Gist = []
    for event in events:
        match event:
            case TextStart(block_id):
                said.append(("text", fragments.setdefault(block_id, [])))
            case ReasoningStart(block_id):
                said.append(("reasoning", fragments.setdefault(block_id, [])))
            case TextDelta(delta, block_id) | ReasoningDelta(delta, block_id):
                fragments.setdefault(block_id, []).append(delta)
            case ToolCall(name, text):
                said.append(("call", (name, _value(text))))
            case File(media_type, data):
                said.append(("file", (media_type, data)))
            case Finish(reason, usage):
                said.append(("finish", (reason, usage.input_tokens, usage.output_tokens)))
            case _:
                pass
    whole = [(kind, "".join(what) if isinstance(what, list) else what) for kind, what in said]
    return [(kind, what) for kind, what in whole if what != ""]


def with_numbered_ids(events: Iterable[Event]) -> list[Event]:
    """The events with their ids replaced by numbers in order of appearance, for dialects that mint ids."""
    numbers: dict[str, str] = {}
    numbered: list[Event] = []
    for event in events:
        if not isinstance(event, ResponseMetadata):
            ids = {name: getattr(event, name) for name in _ID_FIELDS if hasattr(event, name)}
            renamed = {name: numbers.setdefault(value, f"#{len(numbers)}") for name, value in ids.items()}
            event = msgspec.structs.replace(event, **renamed) if renamed else event
        numbered.append(event)
    return numbered


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
