"""The order of messages: results as their calls."""

from __future__ import annotations

from typing import Any

__all__ = ["in_call_order"]


def in_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages; results in the order of their calls, as xAI wants them."""
    out: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []  # behind the latest message of another role
    places: dict[str, int] = {}
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        out += _sorted(results, places)
        out.append(message)
        results = []
        places = {call["id"]: place for place, call in enumerate(message.get("tool_calls") or ())}
    return out + _sorted(results, places)


def _sorted(results: list[dict[str, Any]], places: dict[str, int]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda result: places.get(result["tool_call_id"], len(places)))
