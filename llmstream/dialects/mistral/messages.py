"""A conversation as this wire has it: our messages to `messages`.

The vendor checks the order of roles: a system message stands before answers, after tool results
comes the assistant, every call has its result, and an answer that stands last is the beginning of
the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.custom_parts import without_custom_parts
from llmstream.dialects.foreign_reasoning import FOREIGN_REASONING, MessageVendors, is_foreign
from llmstream.dialects.mistral.finish import KEY
from llmstream.dialects.mistral.media import encode_media, own
from llmstream.dialects.request_warnings import RequestWarnings
from llmstream.dialects.result_text import told_result
from llmstream.dialects.short_call_ids import ShortCallIds
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, Warning

__all__ = ["BRIDGE", "NO_RESULT", "MessageWriter"]

BRIDGE: Final = "OK"
"""What the assistant is made to say between tool results and the user's next words."""

NO_RESULT: Final = "There is no result: the call was not run."


class MessageWriter:
    """Writes the messages of one request.

    warnings: what was left out or moved
    """

    def __init__(self, *, provider: str) -> None:
        self.warnings: list[Warning] = RequestWarnings()
        self._provider = provider
        self._ids = ShortCallIds(())
        self._out: list[dict[str, Any]] = []
        self._system: list[dict[str, Any]] = []
        self._awaited: dict[str, str] = {}

    def write(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        """The wire's messages.

        raises: Unsupported where content would be lost, InvalidRequest for a role nobody knows
        """
        messages = without_custom_parts(messages, self._warn)
        self._ids = ShortCallIds(messages)
        for message in messages:
            if message.role in (Role.SYSTEM, "developer"):
                self._on_system(message)
            elif message.role == Role.USER:
                self._on_user(message)
            elif message.role == Role.ASSISTANT:
                self._on_assistant(message)
            elif message.role == Role.TOOL:
                self._on_results(message.parts)
            else:
                raise InvalidRequest(
                    f"{self._provider} has no role {message.role!r}. Use system, user, assistant or tool."
                )
        self._close_calls()
        out = self._system + self._out
        if out and out[-1]["role"] == "assistant":
            out[-1]["prefix"] = True
        return out

    def _on_system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._lost(part, "a system message")
        written = {"role": "system", "content": self._content(message.parts)}
        if not self._out:
            self._system.append(written)
        elif self._out[-1]["role"] in ("system", "user"):
            self._out.append(written)
        else:
            self._system.append(written)
            self._warn("a system message after an answer was moved to the top: the API takes none there")

    def _on_user(self, message: Message) -> None:
        self._on_results(message.parts)
        parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if parts or not message.parts:
            self._close_calls()
            if self._out and self._out[-1]["role"] == "tool" and not _written_so(message):
                self._out.append({"role": "assistant", "content": BRIDGE})
            self._out.append({"role": "user", "content": self._content(parts)})

    def _on_assistant(self, message: Message) -> None:
        self._close_calls()
        content = []
        vendors = MessageVendors(message)
        for part in message.parts:
            if isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Reasoning):
                if is_foreign(part, vendors, KEY, self._provider):
                    self._warn(FOREIGN_REASONING)
                else:
                    content.append(_thinking(part))
            elif isinstance(part, (Image, Audio, Document, File)):
                self._warn(f"a file of the assistant ({part_kind(part)}) cannot go back; it was left out")
            elif isinstance(part, ToolCall) and part.provider_executed:
                self._warn(f"the tool call {part.name!r}, which its vendor ran, cannot go back; left out")
            elif isinstance(part, Custom):
                self._warn(f"a part of type {part.type!r} cannot go back; it was left out")
        out: dict[str, Any] = {"role": "assistant"}
        if all(part["type"] == "text" for part in content):
            out["content"] = "".join(part["text"] for part in content)
        else:
            out["content"] = content
        calls = [call for call in message.tool_calls if not call.provider_executed]
        if calls:
            out["tool_calls"] = [self._call(call) for call in calls]
            self._awaited = {call.id: call.name for call in calls}
        elif not out["content"]:
            self._warn("an assistant's message that says nothing was left out")
            return
        self._out.append(out)

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        return {"id": self._ids[call.id], "type": "function", "function": function}

    def _on_results(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            if part.provider_executed:
                self._warn(f"the result of {part.name!r}, which its vendor ran, cannot go back; left out")
                continue
            name = self._awaited.pop(part.tool_call_id, None)
            if name is None:
                self._warn(f"a result for {part.tool_call_id!r}, which no call awaits, was left out")
                continue
            self._result(part, part.name or name)

    def _result(self, part: ToolResult, name: str) -> None:
        text = told_result(part)
        content: Any = text
        if part.parts:
            first = [{"type": "text", "text": text}] if text else []
            content = [*first, *(self._part(piece) for piece in part.parts)]
        call_id = self._ids[part.tool_call_id]
        self._out.append({"role": "tool", "name": name, "tool_call_id": call_id, "content": content})

    def _close_calls(self) -> None:
        """Gives every call that was left open a result: the API counts them."""
        awaited, self._awaited = self._awaited, {}
        for call_id, name in awaited.items():
            self._warn(f"the call {call_id!r} had no result; one that says so was added")
            written = {"role": "tool", "name": name, "tool_call_id": self._ids[call_id], "content": NO_RESULT}
            self._out.append(written)

    def _content(self, parts: Iterable[Part]) -> str | list[dict[str, Any]]:
        """One string where that says it all, else a list of parts."""
        content = [self._part(part) for part in parts]
        if len(content) == 1 and content[0]["type"] == "text":
            return str(content[0]["text"])
        return content or ""

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, (Image, Audio, Document, File)):
            return encode_media(part)
        raise self._lost(part, "a user message")

    def _lost(self, part: object, where: str) -> Unsupported:
        return Unsupported(f"{self._provider} cannot take a part of kind {part_kind(part)!r} in {where}.")

    def _warn(self, message: str) -> None:
        warning = OtherWarning(message)
        if warning not in self.warnings:
            self.warnings.append(warning)


def _written_so(message: Message) -> bool:
    """Whether a client of this wire wrote a user's message right behind a tool's; newer models take it."""
    match message.metadata:
        case {"llmstream": {"mistral": {"follows_tool": True}}}:
            return True
    return False


def _thinking(part: Reasoning) -> dict[str, Any]:
    """Thinking with its signature where one was given."""
    words = [{"type": "text", "text": part.text}] if part.text else []
    out: dict[str, Any] = {"type": "thinking", "thinking": words}
    if own(part).get("signature"):
        out["signature"] = own(part)["signature"]
    return out
