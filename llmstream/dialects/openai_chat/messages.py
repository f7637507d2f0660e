"""A conversation as this wire has it: our messages to `messages`.

System messages stand where they stood; each tool result is a message of its own; images and
files of results follow all results of a turn in a user message, since tool messages hold text.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.reasoning_details import joined
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, Warning

__all__ = ["MessageWriter", "accepts_url"]

_AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def accepts_url(part: Image | Audio | Document | File, quirks: Quirks) -> bool:
    """Whether a part may be given by its URL."""
    if quirks.string_only_content:
        return True  # no file is taken, whatever holds it
    if isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/")):
        return quirks.image_urls or part.url.startswith("data:")
    return quirks.file_urls and not isinstance(part, Audio)


class MessageWriter:
    """Writes the messages of one request.

    system_role: what this model calls the system role
    warnings:    what was left out
    """

    def __init__(self, quirks: Quirks, *, provider: str, system_role: str) -> None:
        self.warnings: list[Warning] = []
        self._quirks = quirks
        self._provider = provider
        self._system_role = system_role
        self._out: list[dict[str, Any]] = []
        self._result_files: list[tuple[str, Part]] = []

    def write(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        """The wire's messages.

        raises: Unsupported where content would be lost, InvalidRequest for a role nobody knows
        """
        messages = list(messages)
        turn = max((i for i, m in enumerate(messages) if m.role == Role.USER), default=-1)
        for place, message in enumerate(messages):
            if message.role != Role.TOOL:
                self._flush_result_files()
            if message.role in (Role.SYSTEM, "developer"):
                self._system(message)
            elif message.role == Role.USER:
                self._user(message)
            elif message.role == Role.ASSISTANT:
                self._assistant(message, in_turn=place > turn)
            elif message.role == Role.TOOL:
                self._results(message.parts)
            else:
                raise InvalidRequest(
                    f"{self._provider} has no role {message.role!r}. Use system, user, assistant or tool."
                )
        self._flush_result_files()
        return self._out

    def _system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._lost(part, "a system message")
        self._out.append({"role": self._system_role, "content": self._content(message.parts)})

    def _user(self, message: Message) -> None:
        self._results(message.parts)
        self._flush_result_files()
        parts = [part for part in message.parts if not isinstance(part, ToolResult)]
        if parts or not message.parts:
            self._out.append({"role": "user", "content": self._content(parts)})

    def _results(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            content = part.content
            if not content and part.result is not None:
                content = msgspec.json.encode(part.result).decode()
            call_id = self._id(part.tool_call_id)
            self._out.append({"role": "tool", "tool_call_id": call_id, "content": content})
            self._result_files.extend((call_id, file) for file in part.parts)

    def _flush_result_files(self) -> None:
        """Files of tool results, once all results of the turn are written."""
        files, self._result_files = self._result_files, []
        content: list[dict[str, Any]] = []
        for call_id, file in files:
            content.append({"type": "text", "text": f"This belongs to the result of tool call {call_id}:"})
            content.append(self._part(file))
        if content:
            self._out.append({"role": "user", "content": content})

    def _assistant(self, message: Message, *, in_turn: bool) -> None:
        texts = [part for part in message.parts if isinstance(part, Text)]
        calls = [self._call(part) for part in message.tool_calls if not part.provider_executed]
        out: dict[str, Any] = {"role": "assistant", "content": self._content(texts, glue="")}
        if not texts and calls:
            out["content"] = None
        if self._quirks.echo == "all" or (self._quirks.echo == "current-turn" and in_turn):
            out.update(self._echo(message))
        if calls:
            out["tool_calls"] = calls
        for part in message.parts:
            audio_id = self._own(part).get("audio_id")
            if audio_id:
                out["audio"] = {"id": audio_id}
            elif isinstance(part, (Image, Audio, Document, File)):
                self._warn(f"a file of the assistant ({part_kind(part)}) cannot go back; it was left out")
            elif isinstance(part, ToolCall) and part.provider_executed:
                self._warn(f"the vendor's own tool call {part.name!r} cannot go back; it was left out")
            elif isinstance(part, Custom) and not part.type.endswith(".reasoning_details"):
                self._warn(f"a part of type {part.type!r} cannot go back; it was left out")
            elif not isinstance(part, (Text, Reasoning, ToolCall, ToolResult, Source, Custom)):
                raise self._lost(part, "an assistant's message")
        self._out.append(out)

    def _echo(self, message: Message) -> dict[str, Any]:
        """Reasoning under the name the vendor reads it; typed details exactly as they came."""
        field = self._quirks.reasoning_field
        if field == "none":
            return {}
        text = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
        name = "reasoning" if field == "reasoning_details" else field
        out: dict[str, Any] = {name: text} if text or self._quirks.echo_empty else {}
        if field == "reasoning_details":
            details = joined(self._own(part).get("reasoning_details") for part in message.parts)
            if details:
                out["reasoning_details"] = details
        return out

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        out: dict[str, Any] = {"id": self._id(call.id), "type": "function", "function": function}
        if self._own(call).get("extra_content"):
            out["extra_content"] = self._own(call)["extra_content"]
        return out

    def _id(self, call_id: str) -> str:
        """An id as long as the vendor takes it; the same for call and result."""
        longest = self._quirks.max_call_id_chars
        if longest is None or len(call_id) <= longest:
            return call_id
        return f"call_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()}"[:longest]

    def _content(self, parts: Iterable[Part], glue: str = "\n") -> str | list[dict[str, Any]]:
        """One string where that says it all, else a list of parts."""
        parts = list(parts)
        if all(isinstance(part, Text) and not self._own(part).get("cache_control") for part in parts):
            texts = [part.text for part in parts if isinstance(part, Text)]
            if len(texts) < 2 or self._quirks.string_only_content or not glue:
                return glue.join(texts)
        if self._quirks.string_only_content:
            other = next(part for part in parts if not isinstance(part, Text))
            raise self._lost(other, "a message, which has to be text alone")
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            out: dict[str, Any] = {"type": "text", "text": part.text}
        elif isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/")):
            out = {"type": "image_url", "image_url": self._image(part)}
        elif isinstance(part, Audio):
            out = {"type": "input_audio", "input_audio": self._audio(part)}
        elif isinstance(part, (Document, File)):
            out = self._document(part)
        else:
            raise self._lost(part, "a user message")
        if self._own(part).get("cache_control"):
            out["cache_control"] = self._own(part)["cache_control"]
        return out

    def _image(self, part: Image | File) -> dict[str, Any]:
        if part.data:
            url = _data_uri(part.data, part.media_type or "image/png")
        elif self._quirks.image_urls or part.url.startswith("data:"):
            url = part.url
        else:
            raise Unsupported(f"{self._provider} takes images as bytes only. Pass data and media_type.")
        detail = self._own(part).get("detail")
        return {"url": url, "detail": detail} if detail else {"url": url}

    def _audio(self, part: Audio) -> dict[str, Any]:
        if not part.data:
            raise Unsupported(f"{self._provider} takes audio as bytes only. Pass data and media_type.")
        kind = part.media_type.lower()
        name = _AUDIO_FORMATS.get(kind, kind.rpartition("/")[2])
        allowed = self._quirks.audio_formats
        if allowed is not None and name not in allowed:
            raise Unsupported(
                f"{self._provider} does not take audio of type {part.media_type!r}, "
                f"only {', '.join(sorted(allowed)) or 'none at all'}."
            )
        return {"data": base64.b64encode(part.data).decode(), "format": name}

    def _document(self, part: Document | File) -> dict[str, Any]:
        name = getattr(part, "filename", "")
        kind = part.media_type or "application/pdf"
        if self._own(part).get("file_id"):
            return {"type": "file", "file": {"file_id": self._own(part)["file_id"]}}
        if part.data and kind.startswith("text/"):
            return {"type": "text", "text": part.data.decode("utf-8", "replace")}
        if not part.data and not self._quirks.file_urls:
            raise Unsupported(f"{self._provider} takes documents as bytes only. Pass data and media_type.")
        data = _data_uri(part.data, kind) if part.data else part.url
        name = name or f"document{mimetypes.guess_extension(kind) or ''}"
        return {"type": "file", "file": {"filename": name, "file_data": data}}

    def _own(self, part: object) -> dict[str, Any]:
        """What this provider wants back with the part."""
        metadata = getattr(part, "metadata", None) or {}
        own: dict[str, Any] = metadata.get(self._provider) or {}
        return own

    def _lost(self, part: object, where: str) -> Unsupported:
        return Unsupported(f"{self._provider} cannot take a part of kind {part_kind(part)!r} in {where}.")

    def _warn(self, message: str) -> None:
        self.warnings.append(OtherWarning(message))


def _data_uri(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
