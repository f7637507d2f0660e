"""Chunks of a Chat Completions stream as typed values, tolerant where servers differ.

Only fields that the decoder reads are named: msgspec skips unknown keys without creating a Python object,
and every named key costs a little on every chunk. Fields that differ between servers are `Any`, so that a
harmless difference (a number for an id, null for a list) is not an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from llmstream.events import FinishReason
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.dialects.openai_chat.quirks import UsageQuirks


__all__ = ["Chunk", "FullChunk", "finish_reason", "raw_reason", "read_usage", "write_usage"]


_NOTHING: Final = msgspec.Raw(b"")


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a call; arguments is JSON text, a JSON value, or null."""

    name: str | None = None
    arguments: Any = None


class ToolCallFragment(msgspec.Struct, gc=False):
    """A piece of a tool call.

    custom:        `{name, input}` of a custom tool, whose input is plain text
    extra_content: Google's signature, which goes back with the call
    """

    index: Any = None
    id: Any = None
    function: Function | None = None
    custom: Any = None
    extra_content: Any = None


class Delta(msgspec.Struct, gc=False):
    """What one chunk adds; a complete message has the same keys.

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
    """One of the answers. `message` stays undecoded: Perplexity repeats the text so far in it."""

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


class FullChunk(Chunk, gc=False):
    """A chunk with all names that are read; used until text is open, and for the last chunks.

    Every chunk repeats some of them, so the chunks between are decoded without.
    """

    id: Any = None
    model: Any = None
    created: Any = None
    images: Any = None
    prompt_filter_results: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None


class PlainFunction(msgspec.Struct, gc=False):
    """A piece of the input of a call whose name is known."""

    arguments: str
    name: None = None


class PlainFragment(msgspec.Struct, gc=False):
    """A piece of a call that has begun."""

    index: int
    function: PlainFunction
    id: None = None
    extra_content: None = None


class PlainDelta(msgspec.Struct, gc=False):
    """A piece of text, of reasoning or of one call. Many servers send null for the other fields."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[PlainFragment] | None = None
    reasoning: None = None
    reasoning_details: None = None
    refusal: None = None
    function_call: None = None
    annotations: None = None
    images: None = None
    audio: None = None
    executed_tools: None = None
    extra_content: None = None
    reasoning_text: None = None
    reasoning_opaque: None = None


class PlainChoice(msgspec.Struct, gc=False, kw_only=True):
    """The first choice, while it streams."""

    index: Literal[0] = 0
    delta: PlainDelta
    logprobs: None = None
    finish_reason: None = None
    usage: None = None


class PlainChunk(msgspec.Struct, gc=False):
    """A chunk that is one more piece, as nearly all are. No other chunk fits it."""

    choices: tuple[PlainChoice]
    usage: None = None
    error: None = None
    citations: None = None
    search_results: None = None
    x_groq: None = None
    moderation: None = None


chunks: Final = msgspec.json.Decoder(Chunk)
plain_chunks: Final = msgspec.json.Decoder(PlainChunk)
full_chunks: Final = msgspec.json.Decoder(FullChunk)
deltas: Final = msgspec.json.Decoder(Delta)


# Finish reasons of this wire, in both directions.

_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "error": "error",
    # Values of compatible servers that are unambiguous.
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",  # Z.ai
    "tool_use": "tool-calls",
    "sensitive": "content-filter",  # Z.ai
    "refusal": "content-filter",
    "network_error": "error",  # Z.ai
    "insufficient_system_resource": "error",  # DeepSeek
}

_RAW: Final[Mapping[FinishReason, str | None]] = {
    "stop": "stop",
    "length": "length",
    "content-filter": "content_filter",
    "tool-calls": "tool_calls",
    "error": "error",
    "other": "other",
    "unknown": None,
}


def finish_reason(raw: str | None, own: Mapping[str, FinishReason]) -> FinishReason:
    """Maps the vendor's reason to ours; `own` has those of one vendor."""
    if not raw:
        return "unknown"
    return own.get(raw) or _REASONS.get(raw) or _REASONS.get(raw.lower(), "other")


def raw_reason(reason: FinishReason, raw: str | None, own: Mapping[str, FinishReason]) -> str | None:
    """Maps our reason to the wire's; prefers the vendor's original value if it means the same."""
    if raw and (finish_reason(raw, own) == reason or (reason == "tool-calls" and raw == "stop")):
        return raw
    return _RAW[reason]


# Token counts of a Chat Completions response, in all known positions and under all known names.
#
# `prompt_tokens` includes cached tokens and `completion_tokens` includes reasoning, except where
# the counts themselves show otherwise: xAI's total is the sum of prompt, completion and reasoning.


def read_usage(raw: dict[str, Any], quirks: UsageQuirks) -> Usage:
    """Reads a usage object; missing counts are None."""
    given = _details(raw, "prompt_tokens_details", "prompt_token_details")
    made = _details(raw, "completion_tokens_details", "completion_token_details")
    prompt = _count(raw, "prompt_tokens", "input_tokens")
    completion = _count(raw, "completion_tokens", "output_tokens")
    total = _count(raw, "total_tokens")
    reasoning = _count(made, "reasoning_tokens") if made else None
    if reasoning is None:
        reasoning = _count(raw, "reasoning_tokens")
    cached = written = None
    if given:
        cached = _count(given, "cached_tokens")
        written = _count(given, "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
    if cached is None:
        cached = _count(raw, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    if written is None:
        written = _count(raw, "cache_creation_input_tokens")
    if completion is not None and reasoning:
        beside = quirks.output_may_exclude_reasoning and reasoning > completion
        if beside or quirks.output_excludes_reasoning or _leaves_out(prompt, completion, reasoning, total):
            completion += reasoning
        if beside and total is not None:
            total += reasoning
    if quirks.input_may_exclude_cached and prompt is not None and cached and cached > prompt:
        prompt += cached
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    return Usage(prompt, completion, total, reasoning, cached, written, raw)


def write_usage(usage: Usage, quirks: UsageQuirks) -> dict[str, Any]:
    """Writes a usage object; 0 where the wire requires a number."""
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    total = usage.total_tokens if usage.total_tokens is not None else prompt + completion
    if quirks.output_excludes_reasoning:
        completion = max(0, completion - (usage.reasoning_tokens or 0))
    raw: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    given: dict[str, int] = {}
    if usage.cached_input_tokens is not None:
        given["cached_tokens"] = usage.cached_input_tokens
    if usage.cache_write_tokens is not None:
        given["cache_write_tokens"] = usage.cache_write_tokens
    if given:
        raw["prompt_tokens_details"] = given
    if usage.reasoning_tokens is not None:
        raw["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return raw


def _leaves_out(prompt: int | None, completion: int, reasoning: int, total: int | None) -> bool:
    return total is not None and prompt is not None and total == prompt + completion + reasoning


def _details(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if isinstance(details := raw.get(name), dict):
            return details
    return {}


def _count(raw: dict[str, Any], *names: str) -> int | None:
    for name in names:
        if (value := raw.get(name)) is None:
            continue
        if type(value) is int:
            return value
        if isinstance(value, float) and value == value // 1:
            return int(value)
    return None
