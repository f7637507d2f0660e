"""The order of messages: results as their calls, and for some vendors the roles by turns.

source: Perplexity answers anything else with "After the (optional) system message(s), user or tool
message(s) should alternate with assistant message(s)" (seen 2026-02)
"""

from __future__ import annotations

from typing import Any, Final

from llmstream.events import OtherWarning, Warning

__all__ = ["alternating", "in_call_order"]

_SYSTEM: Final = ("system", "developer")
_OPENING: Final = "(The conversation begins with the assistant.)"
_CLOSING: Final = "(Go on.)"


def alternating(messages: list[dict[str, Any]], warnings: list[Warning]) -> list[dict[str, Any]]:
    """The messages in that order; neighbours of one role become one message."""
    system = [message for message in messages if message["role"] in _SYSTEM]
    if messages[: len(system)] != system:
        _warn("a system message inside the conversation was moved to the top", warnings)
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] in _SYSTEM:
            continue
        if turns and turns[-1]["role"] == message["role"] and message["role"] != "tool":
            turns[-1] = _joined(turns[-1], message)
        else:
            turns.append(message)
    if turns and turns[0]["role"] == "assistant":
        _warn("a user's message was put before the first answer", warnings)
        turns.insert(0, {"role": "user", "content": _OPENING})
    if turns and turns[-1]["role"] == "assistant":
        _warn("a user's message was put after the last answer", warnings)
        turns.append({"role": "user", "content": _CLOSING})
    return system + turns


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


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two messages of one role as one."""
    out = {**first, **second}
    one, other = first.get("content"), second.get("content")
    if isinstance(one, str) and isinstance(other, str):
        out["content"] = "\n\n".join(text for text in (one, other) if text)
    else:
        out["content"] = [*_parts(one), *_parts(other)] or None
    calls = [*first.get("tool_calls", ()), *second.get("tool_calls", ())]
    return {**out, "tool_calls": calls} if calls else out


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def _warn(message: str, warnings: list[Warning]) -> None:
    warnings.append(OtherWarning(f"{message}: the API wants user and assistant by turns"))
