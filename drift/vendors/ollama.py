"""ollama: chat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ollama import ChatResponse

from drift.filled import Rules
from drift.shapes import shape_of
from drift.wires import Case, Reasons, Wire, as_line, encoded, time_text

PACKAGE = "ollama"


def wires(meaningless: Mapping[str, Mapping[str, str]]) -> Iterator[Wire]:
    """The one wire."""
    rules = Rules(
        fixed={
            "ChatResponse.done": False,
            "ChatResponse.created_at": time_text,
            "Message.images": encoded,
        },
        meaningless=meaningless.get("ollama", {}),
    )
    shape = shape_of(ChatResponse)
    last = {"model": "m", "done": True, "done_reason": "stop", "message": {"role": "assistant"}}
    cases = (
        Case("ChatResponse", shape, lambda value: [value, last]),
        Case("ChatResponse, done", shape, lambda value: [value | {"done": True}]),
    )
    reasons = Reasons(
        "done_reason", ("stop", "length", "load", "unload"), lambda word: [last | {"done_reason": word}]
    )
    yield Wire("ollama", cases, (reasons,), rules, framed=as_line)
