"""The turns of a Messages request as our messages: the reverse of `conversation.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.chats.content import (
    Custom,
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
from llmstream.dialects.anthropic.blocks import KEY, TOOL_USES
from llmstream.dialects.anthropic.media import read_media
from llmstream.dialects.anthropic.request_checks import Turn, refusal

__all__ = ["TurnReader", "read_system"]


def read_system(system: str | list[dict[str, Any]] | None) -> list[Message]:
    """The system prompt as one message, a part for each of its blocks."""
    if not system:
        return []
    if isinstance(system, str):
        return [Message.system(system)]
    parts = []
    for number, block in enumerate(system):
        if not isinstance(block.get("text"), str):
            raise refusal(f"system.{number}.text: Field required")
        parts.append(Text(block["text"], _rest(block, "type", "text")))
    return [Message("", Message.system("").role, tuple(parts))]


class TurnReader:
    """Reads turns that have been checked; results learn the names of their calls."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, turns: list[Turn]) -> list[Message]:
        """The messages; a user's turn with tool results becomes a tool message and the rest."""
        out: list[Message] = []
        for turn in turns:
            parts = [self._part(block) for block in turn.blocks if block.get("text") != ""]
            if turn.role == "assistant":
                out.append(Message.assistant(*parts))
                continue
            if turn.role == "system":
                out.append(Message("", Message.system("").role, tuple(parts)))
                continue
            results = [part for part in parts if isinstance(part, ToolResult)]
            others = [part for part in parts if not isinstance(part, ToolResult)]
            if results:
                out.append(Message.tool(results))
            if others:
                out.append(Message.user(*others))
        return out

    def _part(self, block: dict[str, Any]) -> Part:
        kind = block["type"]
        if kind == "text":
            return Text(block["text"], _rest(block, "type", "text"))
        if kind == "thinking":
            return Reasoning(block["thinking"], {KEY: {"signature": block["signature"]}})
        if kind == "redacted_thinking":
            return Reasoning("", {KEY: {"redacted_data": block.get("data")}})
        if kind in TOOL_USES:
            return self._call(kind, block)
        if kind == "tool_result":
            return self._result(block)
        if kind.endswith("_tool_result"):
            return self._vendor_result(kind, block)
        part = read_media(block) if kind in ("image", "document") else None
        return part or Custom(f"{KEY}.{kind}", {KEY: block})

    def _call(self, kind: str, block: dict[str, Any]) -> ToolCall:
        self._names[block["id"]] = block["name"]
        own = ("type", "id", "name", "input") if kind == "tool_use" else ("id", "name", "input")
        arguments = msgspec.json.encode(block["input"]).decode()
        by_vendor = kind != "tool_use"
        return ToolCall(block["id"], block["name"], arguments, by_vendor, _rest(block, *own))

    def _result(self, block: dict[str, Any]) -> ToolResult:
        call_id = block["tool_use_id"]
        content = block.get("content")
        texts: list[str] = []
        parts: list[Image | Document] = []
        for piece in content if isinstance(content, list) else ():
            media = read_media(piece) if isinstance(piece, dict) else None
            if media is not None:
                parts.append(media)
            elif isinstance(piece, dict) and isinstance(piece.get("text"), str):
                texts.append(piece["text"])
            else:
                texts.append(msgspec.json.encode(piece).decode())
        return ToolResult(
            call_id,
            content if isinstance(content, str) else "\n".join(texts),
            block.get("is_error") is True,
            self._names.get(call_id, ""),
            tuple(parts),
            metadata=_rest(block, "type", "tool_use_id", "content", "is_error"),
        )

    def _vendor_result(self, kind: str, block: dict[str, Any]) -> ToolResult:
        call_id, content = block["tool_use_id"], block.get("content")
        failed = isinstance(content, dict) and str(content.get("type")).endswith("_error")
        return ToolResult(
            call_id,
            content if isinstance(content, str) else msgspec.json.encode(content).decode(),
            block.get("is_error") is True or failed,
            self._names.get(call_id) or kind.removesuffix("_tool_result"),
            result=content,
            provider_executed=True,
            metadata=_rest(block, "tool_use_id", "content", "is_error"),
        )


def _rest(block: dict[str, Any], *own: str) -> Metadata | None:
    """What the vendor's block says beyond our part."""
    rest = {key: value for key, value in block.items() if key not in own}
    return {KEY: rest} if rest else None
