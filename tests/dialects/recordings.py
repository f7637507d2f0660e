"""Recorded bodies, and the events that they mean: one a line, in a file beside each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from llmstream import events as ev
from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.base import Dialect
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.gemini import Gemini
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.dialects.mistral import Mistral
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import Event
from tests.dialects.reading import made_ids, read_answer

__all__ = ["SSE", "expected", "frames_of", "read_sse"]


# Dialects whose bodies are SSE, and the provider of their recordings, by the folder.
_DIALECTS: dict[str, tuple[Callable[[], Dialect], str]] = {
    "anthropic": (Anthropic, "anthropic"),
    "cohere": (lambda: Cohere(new_call_id=made_ids()), "cohere"),
    "gemini": (lambda: Gemini(new_call_id=made_ids()), "google"),
    "gemini_interactions": (lambda: GeminiInteractions(made_ids()), "google"),
    "mistral": (lambda: Mistral(new_call_id=made_ids()), "mistral"),
    "openai_responses": (OpenAIResponses, "openai"),
}

SSE = sorted(path for name in _DIALECTS for path in Path(__file__).parent.glob(f"{name}/recordings/*.sse"))


def expected(recording: Path) -> list[Event]:
    """The events that a recording means."""
    return [ev.decode(line) for line in recording.with_suffix(".jsonl").read_bytes().splitlines()]


def frames_of(body: bytes, end: bytes = b"\n\n") -> list[bytes]:
    """The events of an SSE body, with their blank lines."""
    return [frame + end for frame in body.split(end) if frame]


def read_sse(recording: Path, body: bytes, cuts: Iterable[int] = ()) -> list[Event]:
    """The events of a body in the dialect of a recording, which the grammar accepts."""
    make, provider = _DIALECTS[recording.parts[-3]]
    return read_answer(make().decoder(provider=provider), body, cuts, provider=provider).events
