"""Token counts of a response: input includes cached tokens, output includes reasoning."""

from __future__ import annotations

from typing import Any

from llmstream.usage import Usage

__all__ = ["read_usage", "write_usage"]


def read_usage(raw: object) -> Usage:
    """Counts from a usage object; what it does not say is None."""
    if not isinstance(raw, dict) or not raw:
        return Usage()
    given, made = _details(raw, "input_tokens_details"), _details(raw, "output_tokens_details")
    input_tokens, output_tokens = _count(raw, "input_tokens"), _count(raw, "output_tokens")
    total = _count(raw, "total_tokens")
    if total is None and input_tokens is not None and output_tokens is not None:
        total = input_tokens + output_tokens
    return Usage(
        input_tokens,
        output_tokens,
        total,
        _count(made, "reasoning_tokens"),
        _count(given, "cached_tokens"),
        _count(given, "cache_write_tokens"),
        raw,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """The usage object that says these counts, 0 for those unknown; the vendor's own where it says them."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    total = usage.total_tokens if usage.total_tokens is not None else given + made
    cached = {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "input_tokens": given,
        "input_tokens_details": {name: count or 0 for name, count in cached.items()},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": total,
    }


def _details(raw: dict[str, Any], name: str) -> dict[str, Any]:
    details = raw.get(name)
    return details if isinstance(details, dict) else {}


def _count(raw: dict[str, Any], name: str) -> int | None:
    value = raw.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1:
        return int(value)
    return None
