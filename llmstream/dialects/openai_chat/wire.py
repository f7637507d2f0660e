"""Chunks of a Chat Completions stream, as loosely typed as the servers that speak it.

Only what the decoder looks at is named: unknown keys are skipped by msgspec without a Python
object, and every named key costs a little on every chunk. What differs between servers is
`Any`, so that harmless looseness (a number for an id, null for a list) is no defect.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = [
    "Choice",
    "Chunk",
    "Delta",
    "FirstChunk",
    "Function",
    "ToolCallFragment",
    "chunks",
    "deltas",
    "first_chunks",
]


_NOTHING: Final = msgspec.Raw(b"")


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a call; arguments is JSON text, a JSON value, or null."""

    name: str | None = None
    arguments: Any = None


class ToolCallFragment(msgspec.Struct, gc=False):
    """A piece of a tool call.

    custom:        `{name, input}` of a custom tool, whose input is plain text
    extra_content: Google's, and wants to go back with the call
    """

    index: Any = None
    id: Any = None
    function: Function | None = None
    custom: Any = None
    extra_content: Any = None


class Delta(msgspec.Struct, gc=False):
    """What one chunk adds; a whole message has the same keys.

    content:           text, or a list of typed parts
    reasoning_details: OpenRouter's typed reasoning, with signatures
    executed_tools:    Groq's own tool runs
    function_call:     the form of calls before 2023-11
    reasoning_text, reasoning_opaque: Copilot's reasoning, and the signature that it wants back
    """

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[ToolCallFragment | None] | None = None
    refusal: str | None = None
    function_call: Function | None = None
    annotations: list[Any] | None = None
    images: list[Any] | None = None
    audio: dict[str, Any] | None = None
    executed_tools: list[Any] | None = None
    extra_content: Any = None
    reasoning_text: Any = None
    reasoning_opaque: Any = None


class Choice(msgspec.Struct, gc=False):
    """One of the answers. `message` is kept unread: Perplexity repeats the text so far in it."""

    index: Any = None
    delta: Delta | None = None
    finish_reason: str | None = None
    usage: Any = None
    logprobs: Any = None
    message: msgspec.Raw = _NOTHING


class Chunk(msgspec.Struct, gc=False):
    """One event of the stream."""

    choices: list[Choice | None] | None = None
    usage: Any = None
    error: Any = None
    citations: Any = None
    search_results: Any = None
    x_groq: Any = None
    moderation: Any = None


class FirstChunk(Chunk, gc=False):
    """A chunk with the names that every chunk repeats, read until they are known and text is open."""

    id: Any = None
    model: Any = None
    created: Any = None


chunks: Final = msgspec.json.Decoder(Chunk)
first_chunks: Final = msgspec.json.Decoder(FirstChunk)
deltas: Final = msgspec.json.Decoder(Delta)
