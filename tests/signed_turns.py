"""A turn as models that sign their thoughts give it: what each vendor signs, and where."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from llmstream.events import (
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)

Metadata = dict[str, dict[str, Any]]

SIGNED = base64.b64encode(b"signed by the vendor that thought").decode()
THOUGHTS: dict[str, Metadata] = {
    "anthropic": {"anthropic": {"signature": SIGNED}},
    "bedrock-converse": {"bedrock": {"signature": SIGNED}},
    "gemini": {"google": {"thought_signature": SIGNED}},
    "gemini-interactions": {"google": {"signature": SIGNED}},
    "mistral": {"mistral": {"signature": SIGNED}},
    "openai-responses": {"openai": {"encrypted_content": SIGNED}},
}
"""What each wire's vendor sends with its reasoning and wants back; the others sign nothing."""

CALLS: dict[str, Metadata] = {
    "gemini": {"google": {"thought_signature": SIGNED}},
    "gemini-interactions": {"google": {"signature": SIGNED}},
}
"""What it sends with the first call of a turn."""

THOUGHT, SAID = "They want the weather.", "I look it up."


def signed_turn(
    thought: Metadata | None,
    call: Metadata | None,
    ids: Sequence[str],
    block_ids: tuple[str, str] = ("1", "2"),
) -> Iterator[Event]:
    """Yields thoughts, text, and a call of `weather` for each id: of Oslo, then of Rome.

    thought, call: the metadata of the thoughts, and of the first call
    """
    think, say = block_ids
    yield ReasoningStart(think)
    yield ReasoningDelta(THOUGHT, think)
    yield ReasoningEnd(think, provider_metadata=thought)
    yield TextStart(say)
    yield TextDelta(SAID, say)
    yield TextEnd(say)
    for place, (call_id, city) in enumerate(zip(ids, ("Oslo", "Rome"), strict=False)):
        text, told = f'{{"city":"{city}"}}', None if place else call
        yield ToolInputStart("weather", call_id, provider_metadata=told)
        yield ToolInputDelta(text, call_id)
        yield ToolInputEnd(call_id)
        yield ToolCall("weather", text, call_id, provider_metadata=told)
    yield Finish("tool-calls", Usage(3, 5, 8))
