"""The turns of a Converse request as our messages: the reverse of `conversation.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.chats.content import Custom, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.bedrock_converse.blocks import KEY, SERVER_TOOL
from llmstream.dialects.bedrock_converse.media import read_media
from llmstream.dialects.bedrock_converse.request_checks import Turn, member, refusal
from llmstream.dialects.bedrock_converse.result_content import read_result

__all__ = ["TurnReader", "read_system"]

_CACHE_POINT = "cachePoint"


def read_system(blocks: list[dict[str, Any]]) -> list[Message]:
    """The system prompt as one message, a part for each of its blocks."""
    parts: list[Part] = []
    for number, block in enumerate(blocks):
        kind, value = member(f"system.{number}", block)
        if kind == "text" and not value:
            raise refusal(
                f"1 validation error detected: Value '' at 'system.{number}.member.text' failed to satisfy "
                "constraint: Member must have length greater than or equal to 1"
            )
        _append(parts, kind, value, Text(value) if kind == "text" else None)
    return [Message("", Role.SYSTEM, tuple(parts))] if parts else []


class TurnReader:
    """Reads turns that have been checked; results learn the names of their calls."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, turns: list[Turn]) -> list[Message]:
        """The messages; a user's turn with tool results becomes a tool message and the rest."""
        out: list[Message] = []
        for turn in turns:
            parts: list[Part] = []
            for block in turn.content:
                ((kind, value),) = ((k, v) for k, v in block.items() if v is not None)
                _append(parts, kind, value, self._part(kind, value))
            if turn.role != "user":
                out.append(Message("", Role(turn.role), tuple(parts)))
                continue
            results = [part for part in parts if isinstance(part, ToolResult)]
            others = [part for part in parts if not isinstance(part, ToolResult)]
            if results:
                out.append(Message.tool(results))
            if others:
                out.append(Message.user(*others))
        return out

    def _part(self, kind: str, value: Any) -> Part | None:
        match kind:
            case "text":
                return Text(value)
            case "toolUse":
                return self._call(value)
            case "toolResult":
                return self._result(value)
            case "reasoningContent":
                return _reasoning(value)
            case "citationsContent":
                return _cited(value)
            case "image" | "document" | "video" | "audio":
                return read_media(kind, value)
        return None

    def _call(self, value: dict[str, Any]) -> ToolCall:
        self._names[value["toolUseId"]] = value["name"]
        by_vendor = value.get("type") == SERVER_TOOL
        told = {KEY: {"type": SERVER_TOOL}} if by_vendor else None
        arguments = msgspec.json.encode(value["input"]).decode()
        return ToolCall(value["toolUseId"], value["name"], arguments, by_vendor, told)

    def _result(self, value: dict[str, Any]) -> ToolResult:
        call_id, failed = value["toolUseId"], value.get("status") == "error"
        name = self._names.get(call_id, "")
        content = value["content"]
        if value.get("type") is not None:
            told = {key: said for key, said in value.items() if key not in ("toolUseId", "content")}
            text = msgspec.json.encode(content).decode()
            return ToolResult(
                call_id, text, failed, name, result=content, provider_executed=True, metadata={KEY: told}
            )
        text, media, told = read_result(content)
        if value.get("status") == "success":
            told = {**told, "status": "success"}
        return ToolResult(call_id, text, failed, name, media, metadata={KEY: told} if told else None)


def _append(parts: list[Part], kind: str, value: Any, part: Part | None) -> None:
    """Adds a part; a cache point is a mark on the part before it, and what is unknown stays as it is."""
    if part is None and kind == _CACHE_POINT and parts and not isinstance(parts[-1], Custom):
        marked: Any = parts[-1]
        told = {**(marked.metadata or {}).get(KEY, {}), "cache_point": value}
        parts[-1] = msgspec.structs.replace(marked, metadata={**(marked.metadata or {}), KEY: told})
    else:
        parts.append(Custom(f"{KEY}.{kind}", {KEY: value}) if part is None else part)


def _reasoning(value: dict[str, Any]) -> Part | None:
    match value:
        case {"redactedContent": str(data)}:
            return Reasoning("", {KEY: {"redacted_data": data}})
        case {"reasoningText": {"text": str(text), "signature": str(signature)}}:
            return Reasoning(text, {KEY: {"signature": signature}})
        case {"reasoningText": {"text": str(text)}}:
            return Reasoning(text)
    return None


def _cited(value: dict[str, Any]) -> Part | None:
    match value:
        case {"content": [{"text": str(text)}], "citations": list(citations)} if text.strip() and citations:
            return Text(text, {KEY: {"citations": citations}})
    return None
