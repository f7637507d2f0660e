"""The input of an interaction as our messages: the reverse of `conversation.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.gemini_interactions.steps import KEY, OpenStep, step_kind
from llmstream.dialects.google_errors import refusal
from llmstream.dialects.google_media import base64_bytes, sampled_type

__all__ = ["StepReader"]

_CONTENTS: Final = frozenset({"text", "image", "audio", "video", "document"})
_MEDIA_FIELDS: Final = frozenset({"type", "data", "uri", "mime_type"})
_SAMPLING: Final = frozenset({"sample_rate", "channels"})


class StepReader:
    """Reads steps in order; those of one side that follow each other are one message."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._messages: list[Message] = []
        self._parts: list[list[Part]] = []  # of each of them

    def read(self, given: Any) -> list[Message]:
        """The messages of an `input`: a text, a list of contents, or a list of steps.

        raises: BadRequest
        """
        if isinstance(given, str) and given:
            return [Message.user(given)]
        steps = [given] if isinstance(given, dict) else given
        if not isinstance(steps, list) or not steps:
            raise refusal("Invalid input at 'input'.")
        plain = all(isinstance(step, dict) and step.get("type") in _CONTENTS for step in steps)
        if plain:
            steps = [{"type": "user_input", "content": steps}]
        for number, step in enumerate(steps):
            if not isinstance(step, dict) or not isinstance(step.get("type"), str):
                raise refusal(f"Invalid input at 'input[{number}].type'.")
            self._step(step, f"input[{number}]", fresh=True)
        for message, parts in zip(self._messages, self._parts, strict=True):
            message.parts = tuple(parts)
        return self._messages

    def _step(self, step: dict[str, Any], path: str, *, fresh: bool) -> None:
        kind = step["type"]
        if kind in ("user_input", "model_output"):
            role = Role.USER if kind == "user_input" else Role.ASSISTANT
            content = step.get("content")
            pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            for number, piece in enumerate(pieces):
                self._piece(role, piece, f"{path}.content[{number}]", fresh=fresh and number == 0)
        elif kind == "function_result":
            self._add(Role.TOOL, self._result(step, path))
        elif kind in _CONTENTS:
            self._piece(Role.USER, step, path, fresh=False)
        else:
            self._add(Role.ASSISTANT, self._made(step, path))

    def _piece(self, role: Role, piece: Any, path: str, *, fresh: bool) -> None:
        if not isinstance(piece, dict) or not isinstance(piece.get("type"), str):
            raise refusal(f"Invalid input at '{path}.type'.")
        if piece["type"] == "function_result":
            self._add(Role.TOOL, self._result(piece, path))
        else:
            self._add(role, _content(piece, path, role), fresh=fresh and role == Role.USER)

    def _add(self, role: Role, part: Part, *, fresh: bool = False) -> None:
        if fresh or not self._messages or self._messages[-1].role != role:
            self._messages.append(Message("", role))
            self._parts.append([])
        self._parts[-1].append(part)

    def _made(self, step: dict[str, Any], path: str) -> Part:
        """What the model did."""
        opened = OpenStep(step_kind(step["type"]), step)
        if opened.kind == "thought":
            texts = [p.get("text") for p in step.get("summary") or () if isinstance(p, dict)]
            return Reasoning("".join(text for text in texts if isinstance(text, str)), opened.signature)
        if opened.kind == "call":
            if not opened.name:
                raise refusal(f"Invalid input at '{path}.name'.")
            return ToolCall(
                self._id(step, "id"), opened.name, _text(step.get("arguments")), False, opened.signature
            )
        if opened.kind == "vendor-call":
            metadata = opened.rest("id", "arguments")
            return ToolCall(self._id(step, "id"), opened.name, _text(step.get("arguments")), True, metadata)
        if opened.kind == "vendor-result":
            result = step.get("result")
            return ToolResult(
                self._id(step, "call_id"),
                result if isinstance(result, str) else msgspec.json.encode(result).decode(),
                step.get("is_error") is True,
                opened.name,
                result=result,
                provider_executed=True,
                metadata=opened.rest("call_id", "result", "is_error"),
            )
        return Custom(f"{KEY}.{opened.type}", opened.rest("type"))

    def _result(self, step: dict[str, Any], path: str) -> ToolResult:
        if not isinstance(step.get("call_id"), str):
            raise refusal(f"Invalid input at '{path}.call_id'.")
        result, name = step.get("result"), step.get("name")
        content, parts, metadata = _result_content(result, path)
        return ToolResult(
            step["call_id"],
            content,
            step.get("is_error") is True,
            name if isinstance(name, str) else "",
            parts,
            metadata=metadata,
        )

    def _id(self, step: dict[str, Any], key: str) -> str:
        return str(step.get(key) or self._new_call_id())


def _result_content(
    result: Any, path: str
) -> tuple[str, tuple[Image | Document | Audio, ...], Metadata | None]:
    """Text and images; any other value is kept as it came."""
    if isinstance(result, str):
        return result, (), None
    kinds = (
        [p.get("type") if isinstance(p, dict) else None for p in result] if isinstance(result, list) else []
    )
    if not kinds or any(kind not in ("text", "image") for kind in kinds):
        return msgspec.json.encode(result).decode(), (), {KEY: {"result": result}}
    texts = [piece["text"] for piece in result if piece["type"] == "text"]
    images = [_content(piece, path, Role.USER) for piece in result if piece["type"] == "image"]
    exact = images and kinds == ["text"] * min(1, len(texts)) + ["image"] * len(images)
    parts = tuple(image for image in images if isinstance(image, Image))
    return "\n".join(texts), parts, None if exact else {KEY: {"result": result}}


def _content(piece: dict[str, Any], path: str, role: Role) -> Part:
    kind = piece["type"]
    if kind == "text":
        if not isinstance(piece.get("text"), str):
            raise refusal(f"Invalid input at '{path}.text'.")
        return Text(piece["text"])
    if kind not in _CONTENTS:
        return Custom(f"{KEY}.{kind}", {KEY: {key: value for key, value in piece.items() if key != "type"}})
    plain = str(piece.get("mime_type") or "")
    media_type = sampled_type(plain, piece.get("sample_rate"), piece.get("channels"))
    own = _MEDIA_FIELDS if media_type == plain else _MEDIA_FIELDS | _SAMPLING
    rest = {key: value for key, value in piece.items() if key not in own}
    metadata: Metadata | None = {KEY: rest} if rest else None
    data, url = b"", str(piece.get("uri") or "")
    if piece.get("data"):
        try:
            data = base64_bytes(str(piece["data"]))
        except ValueError:
            raise refusal(f"Invalid input at '{path}.data'.") from None
    if not data and not url:
        raise refusal(f"Invalid input at '{path}'.")
    if role == Role.ASSISTANT:
        return File(media_type, url, data, metadata)
    if kind == "image":
        return Image(url, data, media_type, metadata)
    if kind == "audio":
        return Audio(url, data, media_type, metadata)
    return Document(url, data, media_type, metadata=metadata)


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments or "{}"
    return msgspec.json.encode({} if arguments is None else arguments).decode()
