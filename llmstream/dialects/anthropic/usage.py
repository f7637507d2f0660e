"""Token counts of the Messages API, in both directions.

On the wire `input_tokens` leaves out what was read from or written to the cache, and the
top level leaves out the iterations that compacted the conversation.
source: "Prompt caching", "Compaction" in Anthropic's documents
"""

from __future__ import annotations

from typing import Any

from llmstream.events import Usage

__all__ = ["count", "read_usage", "write_usage"]


def read_usage(raw: dict[str, Any]) -> Usage:
    """The vendor's usage object in our meaning.

    An answer that compacted the conversation counts those iterations too, for the account is
    billed for them. Tokens of an advisor model stand in `raw` only: they are another model's.
    """
    rounds = [raw, *_compactions(raw)]
    uncached = _total(rounds, "input_tokens")
    read = _total(rounds, "cache_read_input_tokens")
    written = _total(rounds, "cache_creation_input_tokens")
    made = _total(rounds, "output_tokens")
    given = None if uncached is None else uncached + (read or 0) + (written or 0)
    details = raw.get("output_tokens_details")
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=given + made if given is not None and made is not None else None,
        reasoning_tokens=count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
        cached_input_tokens=read,
        cache_write_tokens=written,
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Our counts as the vendor's usage object; the vendor's own is given back as it came."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    read, written = usage.cached_input_tokens, usage.cache_write_tokens
    raw: dict[str, Any] = {
        "input_tokens": max(0, (usage.input_tokens or 0) - (read or 0) - (written or 0)),
        "output_tokens": usage.output_tokens or 0,
    }
    if written is not None:
        raw["cache_creation_input_tokens"] = written
    if read is not None:
        raw["cache_read_input_tokens"] = read
    if usage.reasoning_tokens is not None:
        raw["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return raw


def count(value: Any) -> int | None:
    """A number of tokens, however it was written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value // 1 and abs(value) < 2**63 else None


def _compactions(raw: dict[str, Any]) -> list[dict[str, Any]]:
    rounds = raw.get("iterations")
    if not isinstance(rounds, list):
        return []
    return [r for r in rounds if isinstance(r, dict) and r.get("type") == "compaction"]


def _total(rounds: list[dict[str, Any]], key: str) -> int | None:
    said = [n for r in rounds if (n := count(r.get(key))) is not None]
    return sum(said) if said else None
