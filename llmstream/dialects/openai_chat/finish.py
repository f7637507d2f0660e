"""Finish reasons of this wire, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llmstream.events import FinishReason

__all__ = ["finish_reason", "raw_reason"]

_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "error": "error",
    # Words of compatible servers that mean one thing only.
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
    """The reason in our words; `own` are those of one vendor."""
    if not raw:
        return "unknown"
    return own.get(raw) or _REASONS.get(raw) or _REASONS.get(raw.lower(), "other")


def raw_reason(reason: FinishReason, raw: str | None, own: Mapping[str, FinishReason]) -> str | None:
    """The reason in the wire's words: the vendor's own where it means the same; None where none was given."""
    if raw and (finish_reason(raw, own) == reason or (reason == "tool-calls" and raw == "stop")):
        return raw
    return _RAW[reason]
