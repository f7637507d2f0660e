"""Reads the oldest saved form: the list of messages that mods keeps in its cache.

    [{"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "date", "arguments": "{}"}]},
     {"role": "tool", "content": "Friday", "tool_call_id": "c1"}]

Calls without an id, as the first of these caches have them, get one (`call_0_0`: message, call),
and results without one answer the open calls in order.
"""

from __future__ import annotations

import msgspec

from llmstream.chats.content import Part, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.role import Role, as_role

__all__ = ["read_mods_cache"]


class _Call(msgspec.Struct):
    name: str
    arguments: str = ""
    id: str | None = None
    is_error: bool = False


class _Message(msgspec.Struct):
    role: str
    content: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[_Call] | None = None


_decoder = msgspec.json.Decoder(list[_Message])


def read_mods_cache(raw: bytes) -> list[Message]:
    """The conversation in such a list.

    raises: what msgspec raises; `load_messages` puts it into words
    """
    open_calls: dict[str, str] = {}  # id to name, in call order
    messages = []
    for index, cached in enumerate(_decoder.decode(raw)):
        if cached.role == Role.TOOL:
            parts: list[Part] = [_result(cached, open_calls)]
        else:
            parts = [Text(cached.content)] if cached.content else []
            for position, call in enumerate(cached.tool_calls or ()):
                call_id = call.id or f"call_{index}_{position}"
                open_calls[call_id] = call.name
                parts.append(ToolCall(call_id, call.name, call.arguments))
        messages.append(Message("", as_role(cached.role), tuple(parts)))
    return messages


def _result(cached: _Message, open_calls: dict[str, str]) -> ToolResult:
    """A tool's message; some caches repeat the call in it, with its id and whether it failed."""
    call = cached.tool_calls[0] if cached.tool_calls else _Call("")
    call_id = cached.tool_call_id or call.id or next(iter(open_calls), "")
    name = open_calls.pop(call_id, call.name)
    return ToolResult(call_id, cached.content or "", is_error=call.is_error, name=name)
