"""Token counts of an interaction, in both directions.

On the wire `total_output_tokens` leaves out thoughts. What the vendor's tools added to the prompt
stands apart in `total_tool_use_tokens`, is in the total, and stays in `raw`.
"""

from __future__ import annotations

from typing import Any

from llmstream.dialects.token_counts import added, token_count
from llmstream.events import Usage

__all__ = ["read_usage", "write_usage"]


def read_usage(raw: dict[str, Any]) -> Usage:
    """The vendor's usage object in our meaning."""
    thoughts = token_count(raw.get("total_thought_tokens"))
    given = token_count(raw.get("total_input_tokens"))
    made = added(token_count(raw.get("total_output_tokens")), thoughts)
    total = token_count(raw.get("total_tokens"))
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=added(given, made) if total is None and None not in (given, made) else total,
        reasoning_tokens=thoughts,
        cached_input_tokens=token_count(raw.get("total_cached_tokens")),
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Our counts as the vendor's usage object; the vendor's own is given back as it came."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    thoughts = usage.reasoning_tokens
    counts = {
        "total_tokens": usage.total_tokens,
        "total_input_tokens": usage.input_tokens,
        "total_cached_tokens": usage.cached_input_tokens,
        "total_output_tokens": None
        if usage.output_tokens is None
        else max(0, usage.output_tokens - (thoughts or 0)),
        "total_thought_tokens": thoughts,
    }
    return {name: count for name, count in counts.items() if count is not None}
