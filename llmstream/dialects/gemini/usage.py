"""Token counts of a Gemini answer, in both directions.

On the wire `candidatesTokenCount` leaves out thoughts, and `promptTokenCount` what the vendor's
tools added to the prompt. Counts are cumulative; a later chunk may leave some out.
source: UsageMetadata in the references of the Gemini API and of Vertex AI
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.token_counts import added, token_count
from llmstream.events import Usage

__all__ = ["Counts", "read_usage", "write_usage"]

_MOST_HELD: Final = 64
"""Chunks whose counts wait to be put together."""
_MOST_FIELDS: Final = 200
"""The vendor has 12; all that are known are copied for each chunk."""


class Counts:
    """The counts of all chunks. As every chunk says them, they are put together only when asked for.

    said: what chunks say goes to its end; anything but an object says nothing. It stays the same list.
    """

    def __init__(self) -> None:
        self.said: list[Any] = []
        self._known: dict[str, Any] = {}

    def settle(self) -> bool:
        """Puts together what is there, if it has become much; False where it has too many fields."""
        if len(self.said) >= _MOST_HELD:
            self._put_together()
        return len(self._known) <= _MOST_FIELDS

    @property
    def usage(self) -> Usage:
        """Each count as it was last stated."""
        self._put_together()
        return read_usage(self._known)

    def _put_together(self) -> None:
        said = [counts for counts in self.said if isinstance(counts, dict)]
        self.said.clear()
        last: dict[str, Any] = {}
        for counts in said:
            last.update(counts)
        if None in last.values():  # null states nothing: what came before it counts
            for key in last:
                stated = [counts[key] for counts in said if counts.get(key) is not None]
                last[key] = stated[-1] if stated else self._known.get(key)
        self._known = self._known | last


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
