"""Token counts of a Gemini answer, in both directions.

On the wire `candidatesTokenCount` leaves out thoughts, and `promptTokenCount` what the vendor's
tools added to the prompt. Counts are cumulative; a later chunk may leave some out.
source: UsageMetadata in the references of the Gemini API and of Vertex AI
"""

from __future__ import annotations

from typing import Any

from llmstream.dialects.token_counts import added, token_count
from llmstream.events import Usage

__all__ = ["merge_usage", "read_usage", "write_usage"]


def merge_usage(known: dict[str, Any], said: Any) -> dict[str, Any]:
    """The counts known so far, with those that a later chunk states."""
    if not isinstance(said, dict):
        return known
    if said.keys() >= known.keys() and None not in said.values():
        return said
    return {**known, **{key: value for key, value in said.items() if value is not None or key not in known}}


def read_usage(raw: dict[str, Any]) -> Usage:
    """The vendor's usage object in our meaning."""
    thoughts = token_count(raw.get("thoughtsTokenCount"))
    given = added(token_count(raw.get("promptTokenCount")), token_count(raw.get("toolUsePromptTokenCount")))
    made = added(token_count(raw.get("candidatesTokenCount")), thoughts)
    total = token_count(raw.get("totalTokenCount"))
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=added(given, made) if total is None and None not in (given, made) else total,
        reasoning_tokens=thoughts,
        cached_input_tokens=token_count(raw.get("cachedContentTokenCount")),
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any] | None:
    """Our counts as the vendor's usage object; the vendor's own is given back as it came."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    out: dict[str, Any] = {}
    if usage.input_tokens is not None:
        out["promptTokenCount"] = usage.input_tokens
    if usage.cached_input_tokens is not None:
        out["cachedContentTokenCount"] = usage.cached_input_tokens
    if usage.output_tokens is not None:
        out["candidatesTokenCount"] = max(0, usage.output_tokens - (usage.reasoning_tokens or 0))
    if usage.reasoning_tokens is not None:
        out["thoughtsTokenCount"] = usage.reasoning_tokens
    if usage.total_tokens is not None:
        out["totalTokenCount"] = usage.total_tokens
    return out or None
