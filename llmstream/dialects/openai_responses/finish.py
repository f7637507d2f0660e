"""How a response ended, in the wire's words and in ours.

The wire has no finish reason: a status says whether the response is complete, and where it is
not, `incomplete_details.reason` says why.
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.events import FinishReason

__all__ = ["TERMINAL", "ending", "reason_of", "said_beside"]

TERMINAL: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",  # ChatGPT's backend and some gateways
}
"""Last events, and the status of a response that does not say its own."""

_STATUSES: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
_INCOMPLETE: Final[dict[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "max_messages": "length",
}
_TOLD: Final = frozenset(
    {"id", "object", "created_at", "model", "status", "output", "output_text", "usage", "error"}
    | {"incomplete_details", "background"}
)
"""Fields of a response that other events hold, or nobody misses."""
_ASKED: Final = frozenset(
    {"input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"}
    | {"previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
    | {"reasoning", "safety_identifier", "store", "temperature", "text", "tool_choice", "tools"}
    | {"top_logprobs", "top_p", "truncation", "user", "frequency_penalty", "presence_penalty"}
    | {"include", "stream", "stream_options", "context_management", "max_tokens", "seed", "stop"}
)
"""Fields that repeat the request; its tools alone may be longer than the answer."""


def said_beside(response: dict[str, Any]) -> dict[str, Any]:
    """What a last event says of the answer beyond it, such as `service_tier`, `tool_usage`, `moderation`."""
    return {
        name: value
        for name, value in response.items()
        if name not in _TOLD and name not in _ASKED and value not in (None, [], {})
    }


def reason_of(event_type: str, response: dict[str, Any]) -> tuple[FinishReason, str]:
    """Our reason and the wire's own word, as a last event says them; "error" where it failed."""
    status = response.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        status = TERMINAL[event_type]
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    if status == "failed":
        return "error", status
    if isinstance(why, str) and why:
        return _INCOMPLETE.get(why, "other"), why
    if status == "completed":
        return "stop", status
    return "other", status


def ending(reason: FinishReason, raw: str | None) -> tuple[str, str | None]:
    """Status and incomplete reason that say how a response ended; the wire's own word wins."""
    if reason == "length":
        return "incomplete", raw if _INCOMPLETE.get(raw or "") == "length" else "max_output_tokens"
    if reason == "content-filter" and raw != "completed":
        return "incomplete", "content_filter"
    if reason == "other":
        if raw in ("cancelled", "incomplete"):
            return raw, None
        return ("incomplete", raw) if raw and raw not in _STATUSES else ("cancelled", None)
    return "completed", None
