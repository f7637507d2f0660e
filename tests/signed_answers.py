"""Answers that a vendor has signed, as events and as messages: for tests that send them on, or back."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from llmstream.accumulate import Accumulator
from llmstream.chats import Message
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
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

SIGNED = base64.b64encode(b"signed by the model that thought").decode()

Signature = dict[str, dict[str, Any]] | None


def signed_answer(thought: Signature, called: Signature, cities: Mapping[str, str]) -> Iterator[Event]:
    """Signed thoughts, a text, and a call of `weather` for each city.

    thought, called: what is signed to the reasoning, and to the first call
    cities:          by the ids of their calls
    """
    block = next(iter(cities))
    yield ReasoningStart(f"think-{block}")
    yield ReasoningDelta("They want the weather.", f"think-{block}")
    yield ReasoningEnd(f"think-{block}", provider_metadata=thought)
    yield TextStart(f"say-{block}")
    yield TextDelta("I look it up.", f"say-{block}")
    yield TextEnd(f"say-{block}")
    for place, (call_id, city) in enumerate(cities.items()):
        own, text = called if place == 0 else None, f'{{"city":"{city}"}}'
        yield ToolInputStart("weather", call_id, provider_metadata=own)
        yield ToolInputDelta(text, call_id)
        yield ToolInputEnd(call_id)
        yield ToolCall("weather", text, call_id, provider_metadata=own)
    yield Finish("tool-calls", Usage(3, 5, 8))


def heard(dialect: Dialect, body: bytes, *, provider: str, size: int = 7) -> Message:
    """The message of a body that arrives in pieces of so many bytes."""
    sentence = GuardedDecoder(dialect.decoder(provider=provider), provider=provider)
    fold = Accumulator()
    fold.feed_many(sentence.start())
    for at in range(0, len(body), size):
        fold.feed_many(sentence.feed(body[at : at + size]))
    fold.feed_many(sentence.close())
    assert sentence.error is None
    return fold.message
