"""The order of messages: results as their calls."""

from __future__ import annotations

from typing import Any

__all__ = ["in_call_order"]


def in_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages; results in the order of their calls, as xAI wants them."""
    out: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    run = 0
    for message in messages:
        if message["role"] != "tool":
            run = len(out) + 1
            places = {call["id"]: place for place, call in enumerate(message.get("tool_calls") or ())}
        out.append(message)
        if len(out) > run:
            out[run:] = sorted(out[run:], key=lambda result: places.get(result["tool_call_id"], len(places)))
    return out
