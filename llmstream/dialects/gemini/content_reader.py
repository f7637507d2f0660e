"""Contents of a Gemini request as our messages: the reverse of `conversation.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Custom,
    File,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.gemini.function_response import read_response
from llmstream.dialects.gemini.part_decoder import CODE_EXECUTION, KEY, snake
from llmstream.dialects.gemini.part_writer import SIDE_FIELDS, camel
from llmstream.dialects.google_errors import refusal
from llmstream.dialects.google_media import base64_bytes, part_of_media

__all__ = ["ContentReader", "read_system", "snake"]


_NOTHING: Final = {"text": ""}
"""What the vendor puts into a chunk that says nothing."""


def read_system(instruction: dict[str, Any] | None) -> list[Message]:
    """The system instruction as a message."""
    parts = [part for part in (instruction or {}).get("parts") or () if isinstance(part, dict)]
    texts = [Text(part["text"]) for part in parts if isinstance(part.get("text"), str)]
    return [Message("", Role.SYSTEM, tuple(texts))] if texts else []


class ContentReader:
    """Reads contents in order; calls without an id get one, and results find theirs by name and order."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._open: dict[str, deque[str]] = {}  # by name, the ids of calls, in order
        self._answered: set[str] = set()
        self._running: tuple[str, str] = ("", "")  # the vendor's last call: wire id and ours

    def read(self, contents: list[dict[str, Any]]) -> list[Message]:
        """All turns. Results are messages of their own."""
        out: list[Message] = []
        for content in contents:
            parts: list[dict[str, Any]] = content["parts"]
            if content.get("role") == "model":
                if out and out[-1].role != Role.ASSISTANT:
                    self._open, self._answered = {}, set()
                made = tuple(self._model_part(part) for part in parts if part != _NOTHING)
                if out and out[-1].role == Role.ASSISTANT:  # clients send an answer back chunk by chunk
                    out[-1].parts += made
                else:
                    out.append(Message("", Role.ASSISTANT, made))
                continue
            results = [self._result(part) for part in parts if "functionResponse" in part]
            others = [self._user_part(part) for part in parts if "functionResponse" not in part]
            if results:
                out.append(Message("", Role.TOOL, tuple(results)))
            if others:
                out.append(Message("", Role.USER, tuple(others)))
        return out

    def _model_part(self, part: dict[str, Any]) -> Part:
        told = _beside(part)
        match part:
            case {"functionCall": dict(call)}:
                call_id = str(call.get("id") or self._new_call_id())
                self._open.setdefault(call["name"], deque()).append(call_id)
                return ToolCall(call_id, call["name"], _text(call.get("args") or {}), False, told)
            case {"text": str(text)} if part.get("thought"):
                return Reasoning(text, told)
            case {"executableCode": dict(code)}:
                given = {key: value for key, value in code.items() if key != "id"}
                return self._vendor_call(CODE_EXECUTION, code.get("id"), given, told)
            case {"codeExecutionResult": dict(result)}:
                given = {key: value for key, value in result.items() if key != "id"}
                failed = given.get("outcome") not in ("OUTCOME_OK", None)
                return self._vendor_result(CODE_EXECUTION, result.get("id"), given, failed, told)
            case {"toolCall": dict(call)}:
                kind = str(call.get("toolType"))
                return self._vendor_call(
                    kind.lower(), call.get("id"), call.get("args", {}), _typed(kind, told)
                )
            case {"toolResponse": dict(result)}:
                kind = str(result.get("toolType"))
                given = result.get("response", {})
                return self._vendor_result(kind.lower(), result.get("id"), given, False, _typed(kind, told))
            case {"inlineData": dict(blob)}:
                media_type, data = _bytes(blob)
                return File(media_type, data=data, metadata=_drafted(part, told))
            case {"fileData": dict(file)}:
                uri = str(file.get("fileUri"))
                return File(str(file.get("mimeType") or ""), url=uri, metadata=_drafted(part, told))
        return self._user_part(part)

    def _user_part(self, part: dict[str, Any]) -> Part:
        told = _beside(part)
        match part:
            case {"text": str(text)}:
                return Text(text, told)
            case {"inlineData": dict(blob)}:
                media_type, data = _bytes(blob)
                media = part_of_media(media_type, data=data)
            case {"fileData": dict(file)}:
                media = part_of_media(str(file.get("mimeType") or ""), url=str(file.get("fileUri") or ""))
            case _:
                kind = next(key for key in part if key not in ("thought", *map(camel, SIDE_FIELDS)))
                inner = part[kind] if isinstance(part[kind], dict) else {"value": part[kind]}
                return Custom(f"{KEY}.{snake(kind)}", {KEY: {**inner, **(told or {}).get(KEY, {})}})
        return msgspec.structs.replace(media, metadata=told)

    def _result(self, part: dict[str, Any]) -> ToolResult:
        wire = part["functionResponse"]
        name = wire["name"]
        waiting = self._open.get(name)
        while waiting and waiting[0] in self._answered:
            waiting.popleft()
        call_id = str(wire.get("id") or (waiting[0] if waiting else self._new_call_id()))
        self._answered.add(call_id)
        content, failed, metadata = read_response(wire.get("response") or {})
        files = []
        for piece in wire.get("parts") or ():
            if isinstance(piece, dict) and isinstance(piece.get("inlineData"), dict):
                media_type, data = _bytes(piece["inlineData"])
                files.append(part_of_media(media_type, data=data))
        return ToolResult(call_id, content, failed, name, tuple(files), metadata=metadata)

    def _vendor_call(self, name: str, wire_id: Any, given: Any, told: Metadata | None) -> ToolCall:
        call_id = str(wire_id or self._new_call_id())
        self._running = (str(wire_id or ""), call_id)
        return ToolCall(call_id, name, _text(given), True, told)

    def _vendor_result(
        self, name: str, wire_id: Any, given: Any, failed: bool, told: Metadata | None
    ) -> ToolResult:
        call_id = str(wire_id or self._running[1] or self._new_call_id())
        return ToolResult(
            call_id, _text(given), failed, name, result=given, provider_executed=True, metadata=told
        )


def _beside(part: dict[str, Any]) -> Metadata | None:
    told = {name: part[camel(name)] for name in SIDE_FIELDS if part.get(camel(name)) is not None}
    return {KEY: told} if told else None


def _typed(kind: str, told: Metadata | None) -> Metadata:
    return {KEY: {"tool_type": kind, **(told or {}).get(KEY, {})}}


def _drafted(part: dict[str, Any], told: Metadata | None) -> Metadata | None:
    return {**(told or {}), "llmstream": {"reasoning": True}} if part.get("thought") else told


def _bytes(blob: dict[str, Any]) -> tuple[str, bytes]:
    try:
        data = base64_bytes(str(blob.get("data") or ""))
    except ValueError:
        raise refusal("Invalid value at 'inline_data.data' (TYPE_BYTES), Base64 decoding failed") from None
    return str(blob.get("mimeType") or ""), data


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
