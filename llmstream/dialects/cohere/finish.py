"""Finish reasons and token counts of this wire, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llmstream.dialects.token_counts import token_count
from llmstream.events import Finish, FinishReason
from llmstream.usage import Usage

__all__ = ["KEY", "finish_reason", "raw_reason", "read_usage", "write_usage"]

KEY: Final = "cohere"
"""The key of all metadata of this dialect, whoever serves it."""

_REASONS: Final[Mapping[str, FinishReason]] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool-calls",
    "ERROR": "error",
    "TIMEOUT": "error",
    # Words of the first version of the API, which clouds that serve these models still use.
    "ERROR_LIMIT": "length",
    "ERROR_TOXIC": "content-filter",
    "USER_CANCEL": "other",
}

_RAW: Final[Mapping[FinishReason, str | None]] = {
    "stop": "COMPLETE",
    "length": "MAX_TOKENS",
    "content-filter": "ERROR_TOXIC",
    "tool-calls": "TOOL_CALL",
    "error": "ERROR",
    "other": "OTHER",
    "unknown": None,
}


def finish_reason(raw: str | None) -> FinishReason:
    """The reason in our words."""
    return "unknown" if not raw else _REASONS.get(raw.upper(), "other")


def raw_reason(event: Finish) -> str | None:
    """The reason in the vendor's words: its own where it means the same; None where none was given."""
    raw, reason = event.raw_finish_reason, event.finish_reason
    meant = finish_reason(raw)
    if raw and (meant == reason or (reason == "tool-calls" and meant in ("stop", "other"))):
        return raw
    return _RAW[reason]


def read_usage(raw: dict[str, Any]) -> Usage:
    """Counts of tokens, or where these are missing the billed ones.

    The prompt includes what was read from the cache, the answer includes thinking.
    """
    tokens = raw.get("tokens")
    counts = tokens if isinstance(tokens, dict) and tokens else raw.get("billed_units")
    counts = counts if isinstance(counts, dict) else {}
    given, made = token_count(counts.get("input_tokens")), token_count(counts.get("output_tokens"))
    total = given + made if given is not None and made is not None else None
    reasoning = token_count(counts.get("reasoning_tokens"))
    return Usage(given, made, total, reasoning, token_count(raw.get("cached_tokens")), raw=raw)


def write_usage(usage: Usage) -> dict[str, Any] | None:
    """The vendor's own object where it says these counts, else one that does; None for none."""
    own = usage.raw
    if isinstance(own, dict) and own.keys() & {"tokens", "billed_units"} and read_usage(own) == usage:
        return own
    tokens = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    tokens = {name: count for name, count in tokens.items() if count is not None}
    if not tokens:
        return None
    billed = {name: count for name, count in tokens.items() if name != "reasoning_tokens"}
    out: dict[str, Any] = {"billed_units": billed, "tokens": tokens}
    if usage.cached_input_tokens is not None:
        out["cached_tokens"] = usage.cached_input_tokens
    return out
