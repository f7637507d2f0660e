"""What was said as attributes of spans, in the JSON forms of the conventions for generative AI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from llmstream.chats.content import Reasoning, Text, ToolCall, ToolResult, part_kind
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.streams.observers import CallContent

__all__ = ["content_attributes"]

_encode = msgspec.json.Encoder().encode


def content_attributes(content: CallContent) -> dict[str, str]:
    """Instructions, input and output of a call. Of files only their kind and media type.

    source: gen_ai.system_instructions, gen_ai.input.messages, gen_ai.output.messages
    """
    messages = content.request.messages
    system = [message for message in messages if message.role == Role.SYSTEM]
    others = [message for message in messages if message.role != Role.SYSTEM]
    found = {"gen_ai.input.messages": _text([_message(message) for message in others])}
    if system:
        found["gen_ai.system_instructions"] = _text(_parts(system))
    if content.message.parts:
        found["gen_ai.output.messages"] = _text([_message(content.message)])
    return found


def _message(message: Message) -> dict[str, Any]:
    return {"role": str(message.role), "parts": _parts([message])}


def _parts(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [_part(part) for message in messages for part in message.parts]


def _part(part: object) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Reasoning(text=text):
            return {"type": "reasoning", "content": text}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
        case ToolResult(tool_call_id=call_id, content=content):
            return {"type": "tool_call_response", "id": call_id, "response": content}
        case _:
            return {"type": part_kind(part), "mime_type": getattr(part, "media_type", None)}


def _text(value: object) -> str:
    return _encode(value).decode()
