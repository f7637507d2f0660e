"""Finish reasons of a Gemini answer, in both directions."""

from __future__ import annotations

from typing import Final

from llmstream.events import FinishReason

__all__ = ["CONTINUATION", "FINISH_REASONS", "finish_reason", "is_block_reason", "raw_reason"]

CONTINUATION: Final = "CONTINUATION"
"""The reason of a response that another one continues."""

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "MODEL_ARMOR": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "IMAGE_PROHIBITED_CONTENT": "content-filter",
    "IMAGE_RECITATION": "content-filter",
    "ESCALATION": "content-filter",
    "PUP_LIMITED_DISABLED": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
    "LANGUAGE": "error",
    "NO_IMAGE": "error",
    "IMAGE_OTHER": "error",
}
"""source: Candidate.FinishReason in the references of the Gemini API and of Vertex AI; google-genai 3.4.0

ESCALATION is a filter's rule; PUP_LIMITED_DISABLED an account that is limited for prohibited use.
"""


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "STOP",
    "tool-calls": "STOP",
    "length": "MAX_TOKENS",
    "content-filter": "SAFETY",
    "other": "OTHER",
    "unknown": "FINISH_REASON_UNSPECIFIED",
}


def finish_reason(raw: str | None) -> FinishReason:
    """The reason in our words."""
    if not raw or raw.endswith("_UNSPECIFIED"):
        return "unknown"
    return FINISH_REASONS.get(raw, "other")


def is_block_reason(raw: object) -> bool:
    """Whether `promptFeedback.blockReason` says that the prompt was refused."""
    return isinstance(raw, str) and bool(raw) and not raw.endswith("_UNSPECIFIED")


def raw_reason(reason: FinishReason, raw: str | None) -> str:
    """The reason in the vendor's words: its own where it means the same."""
    if raw and raw.isupper():
        meant = finish_reason(raw)
        if meant == reason or (reason == "tool-calls" and meant in ("stop", "other", "unknown")):
            return raw
    return _RAW_REASONS.get(reason, "OTHER")
