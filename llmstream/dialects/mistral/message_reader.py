"""The reverse of `messages.py`: the wire's messages to ours, checked as Mistral checks them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Document,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.dialects.mistral.error_words import misordered, unfit
from llmstream.dialects.mistral.finish import KEY, OWN_KEY
from llmstream.dialects.mistral.media import decode_media

__all__ = ["MessageReader"]

_FIELDS: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "tool": {"role", "content", "tool_call_id", "name"},
}
_AFTER: Final = {
    "system": ("system", "user", "assistant"),
    "user": ("system", "user", "assistant"),
    "assistant": ("user", "assistant", "tool"),
    "tool": ("assistant", "tool", "user"),
}
"""Who may speak after whom. A user right after a tool has been refused and, since 2026, taken."""


class MessageReader:
    """Reads the messages of one request."""

    def __init__(self) -> None:
        self._out: list[Message] = []
        self._names: dict[str, str] = {}
        self._awaited = 0

    def read(self, messages: object) -> tuple[Message, ...]:
        """Our messages; results of one turn become one message.

        raises: BadRequest with the vendor's message
        """
        if not isinstance(messages, list):
            raise unfit("body.messages", "Input should be a valid list", "list_type")
        if not messages:
            raise misordered("Conversation must have at least one message")
        before = ""
        for place, message in enumerate(messages):
            role = self._role(place, message)
            if before and role not in _AFTER[before]:
                raise misordered(f"Unexpected role '{role}' after role '{before}'")
            if not before and role == "tool":
                raise misordered("Unexpected role 'tool'")
            if role != "tool":
                self._count()
            self._message(f"body.messages.{place}.{role}", role, message)
            before = role
        if before == "assistant" and messages[-1].get("prefix") is not True:
            wanted = "User or Tool (or Assistant with prefix True)"
            raise misordered(f"Expected last role {wanted} for serving but got assistant")
        self._count()
        return tuple(self._out)

    def _role(self, place: int, message: object) -> str:
        if not isinstance(message, dict):
            raise unfit(f"body.messages.{place}", "Input should be a valid dictionary", "dict_type")
        role = message.get("role")
        if role not in _FIELDS:
            raise unfit(
                f"body.messages.{place}",
                f"Input tag '{role}' found using 'role' does not match any of the expected tags: "
                "'system', 'user', 'assistant', 'tool'",
                "union_tag_invalid",
            )
        for name in message:
            if name not in _FIELDS[role]:
                where = f"body.messages.{place}.{role}.{name}"
                raise unfit(where, "Extra inputs are not permitted", "extra_forbidden")
        return str(role)

    def _count(self) -> None:
        if self._awaited:
            raise misordered("Not the same number of function calls and responses")

    def _message(self, where: str, role: str, message: dict[str, Any]) -> None:
        if role == "tool":
            self._tool(where, message)
        elif role == "assistant":
            self._assistant(where, message)
        elif "content" not in message:
            raise unfit(f"{where}.content", "Field required")
        else:
            follows_tool = bool(self._out) and self._out[-1].role == "tool"
            metadata = {OWN_KEY: {KEY: {"follows_tool": True}}} if follows_tool else None
            self._out.append(Message("", role, self._content(where, message["content"]), metadata))

    def _tool(self, where: str, message: dict[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            raise misordered("Tool call id has to be defined in serving mode.")
        if call_id not in self._names:
            raise misordered(f"Unexpected tool call id {call_id} in tool results")
        if not self._awaited:
            raise misordered("Not the same number of function calls and responses")
        self._awaited -= 1
        parts = self._content(where, message.get("content"))
        text = "".join(part.text for part in parts if isinstance(part, Text))
        files = tuple(part for part in parts if isinstance(part, (Image, Document, Audio)))
        name = str(message.get("name") or self._names[call_id])
        result = ToolResult(call_id, text, name=name, parts=files)
        last = self._out[-1]
        if last.role == "tool":
            self._out[-1] = Message("", "tool", (*last.parts, result))
        else:
            self._out.append(Message.tool([result]))

    def _assistant(self, where: str, message: dict[str, Any]) -> None:
        parts = list(self._content(where, message.get("content")))
        calls = [self._call(where, call) for call in message.get("tool_calls") or ()]
        if not parts and not calls:
            raise misordered("Assistant message must have either content or tool_calls, but not none.")
        self._awaited = len(calls)
        self._out.append(Message("", "assistant", (*parts, *calls)))

    def _call(self, where: str, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise unfit(f"{where}.tool_calls.0.function", "Field required")
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(name, str) or arguments is None:
            raise unfit(f"{where}.tool_calls.0.function.name", "Field required")
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        call_id = str(call.get("id") or "null")
        self._names[call_id] = name
        return ToolCall(call_id, name, arguments)

    def _content(self, where: str, content: object) -> tuple[Part, ...]:
        if content is None or content == "":
            return ()
        if isinstance(content, str):
            return (Text(content),)
        if not isinstance(content, list):
            raise unfit(f"{where}.content", "Input should be a valid string", "string_type")
        parts = (self._part(f"{where}.content.{place}", part) for place, part in enumerate(content))
        return tuple(part for part in parts if part is not None)

    def _part(self, where: str, part: object) -> Part | None:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict):
            raise unfit(where, "Input should be a valid dictionary", "dict_type")
        if kind == "text" and isinstance(part.get("text"), str):
            return Text(part["text"]) if part["text"] else None
        if kind == "thinking":
            return _thinking(part)
        try:
            media = decode_media(part)
        except ValueError:
            raise unfit(where, "Input should be valid base64", "value_error") from None
        if media is None:
            raise unfit(where, f"Input tag '{kind}' found using 'type' is not expected", "union_tag_invalid")
        return media


def _thinking(part: dict[str, Any]) -> Reasoning:
    words = part.get("thinking")
    if isinstance(words, list):
        words = "".join(str(one.get("text") or "") for one in words if isinstance(one, dict))
    signature = part.get("signature")
    kept: Metadata | None = {KEY: {"signature": signature}} if signature else None
    return Reasoning(str(words or ""), kept)
