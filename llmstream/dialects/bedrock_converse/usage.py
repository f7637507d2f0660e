"""Token counts of Converse, in both directions.

On the wire `inputTokens` leaves out what was read from or written to the cache; `totalTokens` does not.
Reasoning is not counted apart.
source: Amazon Bedrock API reference, TokenUsage
"""

from __future__ import annotations

from typing import Any

from llmstream.dialects.token_counts import token_count
from llmstream.events import Usage

__all__ = ["read_usage", "write_usage"]


def read_usage(raw: dict[str, Any]) -> Usage:
    """The vendor's usage object in our meaning."""
    uncached, made = token_count(raw.get("inputTokens")), token_count(raw.get("outputTokens"))
    read, written = _cached(raw, "cacheReadInputToken"), _cached(raw, "cacheWriteInputToken")
    given = None if uncached is None else uncached + (read or 0) + (written or 0)
    total = token_count(raw.get("totalTokens"))
    if total is None and given is not None and made is not None:
        total = given + made
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=total,
        cached_input_tokens=read,
        cache_write_tokens=written,
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Our counts as the vendor's usage object; the vendor's own is given back as it came."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    read, written = usage.cached_input_tokens, usage.cache_write_tokens
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    raw: dict[str, Any] = {
        "inputTokens": max(0, given - (read or 0) - (written or 0)),
        "outputTokens": made,
        "totalTokens": given + made if usage.total_tokens is None else usage.total_tokens,
    }
    if read is not None:
        raw["cacheReadInputTokens"] = read
    if written is not None:
        raw["cacheWriteInputTokens"] = written
    return raw


def _cached(raw: dict[str, Any], stem: str) -> int | None:
    """The count under its name, or under the name it had first."""
    count = token_count(raw.get(f"{stem}s"))
    return token_count(raw.get(f"{stem}Count")) if count is None else count
