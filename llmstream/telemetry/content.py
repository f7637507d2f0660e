"""What was said as attributes of spans, in the JSON forms of the conventions for generative AI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import Reasoning, Text, ToolCall, ToolResult, part_kind
from llmstream.chats.message import Message, Role
from llmstream.streams.observers import CallContent

__all__ = ["content_attributes", "cut"]

_MAX_CHARS: Final = 512 * 1024
"""Of one attribute. Backends take less; this only bounds what a process holds of a long conversation."""

_encode = msgspec.json.Encoder().encode


def content_attributes(content: CallContent) -> dict[str, str]:
    """Instructions, input and output of a call. Of files only their kind and media type.

    Of a conversation longer than half a million characters the newest are there.

    source: gen_ai.system_instructions, gen_ai.input.messages, gen_ai.output.messages
    """
    messages = content.request.messages
    system = [message for message in messages if message.role == Role.SYSTEM]
    others = [message for message in messages if message.role != Role.SYSTEM]
    found = {"gen_ai.input.messages": _text(_messages(others))}
    if system:
        parts = [part for message in _messages(system) for part in message["parts"]]
        found["gen_ai.system_instructions"] = _text(parts)
    if content.message.parts:
        found["gen_ai.output.messages"] = _text(_messages([content.message]))
    return found


def cut(text: str, most: int = _MAX_CHARS) -> str:
    """A text that is too long for an attribute: its beginning, and how much is missing."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more characters)"


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as the conventions have them; room is given to the newest first."""
    left, found = _MAX_CHARS, []
    for message in reversed(messages):
        parts = []
        for part in reversed(message.parts):
            name, text, value = _part(part)
            if name:
                text = text if isinstance(text, str) else _text(text)
                value[name] = cut(text, left)
                left = max(0, left - len(text))
            parts.append(value)
        found.append({"role": str(message.role), "parts": parts[::-1]})
    return found[::-1]


def _part(part: object) -> tuple[str, Any, dict[str, Any]]:
    """The field of a part's text, if it has one; the text; and the other fields."""
    match part:
        case Text(text=text):
            return "content", text, {"type": "text"}
        case Reasoning(text=text):
            return "content", text, {"type": "reasoning"}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return "arguments", arguments, {"type": "tool_call", "id": call_id, "name": name}
        case ToolResult(tool_call_id=call_id, content=content):
            return "response", content, {"type": "tool_call_response", "id": call_id}
        case _:
            media_type = getattr(part, "media_type", None)
            return "", "", {"type": part_kind(part), "mime_type": media_type}


def _text(value: object) -> str:
    return _encode(value).decode()
