"""The reverse of `messages.py`: the wire's messages to ours, checked as OpenAI checks them."""

from __future__ import annotations

import base64
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
from llmstream.dialects.openai_answers import refused
from llmstream.dialects.openai_chat.reasoning_echo import sent_as
from llmstream.dialects.tool_fragments import CUSTOM_CALL

__all__ = ["MessageReader"]

_ROLES: Final = ("system", "assistant", "user", "tool", "developer")
_SIGNED: Final = ("reasoning_details", "reasoning_opaque")
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}


class MessageReader:
    """Reads the messages of one request.

    key: under which the vendor's own fields are kept in metadata
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._out: list[Message] = []
        self._names: dict[str, str] = {}
        self._awaited: list[str] = []

    def read(self, messages: object) -> tuple[Message, ...]:
        """Our messages; results of one turn become one message.

        raises: BadRequest with the vendor's message
        """
        if not isinstance(messages, list):
            raise refused("Invalid type for 'messages': expected an array of objects.", "invalid_type")
        if not messages:
            raise refused(
                "Invalid 'messages': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                "empty_array",
            )
        for place, message in enumerate(messages):
            self._message(place, message)
        self._need_results(len(messages))
        return tuple(self._out)

    def _message(self, place: int, message: object) -> None:
        where = f"messages[{place}]"
        if not isinstance(message, dict):
            raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
        role = message.get("role")
        if role is None:
            raise refused(f"Missing required parameter: '{where}.role'.", "missing_required_parameter")
        if role not in _ROLES:
            raise refused(
                f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, _ROLES))}.",
                "invalid_value",
            )
        if role == "tool":
            self._tool(where, message)
            return
        self._need_results(place)
        if role == "assistant":
            self._assistant(where, message)
        elif "content" not in message:
            raise refused(f"Missing required parameter: '{where}.content'.", "missing_required_parameter")
        else:
            our_role = "user" if role == "user" else "system"
            parts = self._marked(self._content(where, message["content"]), message)
            self._out.append(Message("", our_role, parts))

    def _need_results(self, place: int) -> None:
        if self._awaited:
            raise refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to "
                "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(self._awaited)} (before messages[{place}])"
            )

    def _tool(self, where: str, message: dict[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            raise refused(
                f"Missing required parameter: '{where}.tool_call_id'.", "missing_required_parameter"
            )
        if call_id not in self._awaited:
            raise refused(
                f"Invalid parameter: {where} with role 'tool' must be a response to a preceding message "
                "with 'tool_calls'."
            )
        self._awaited.remove(call_id)
        parts = self._content(where, message.get("content"))
        text = "".join(part.text for part in parts if isinstance(part, Text))
        result = ToolResult(call_id, text, name=self._names[call_id])
        last = self._out[-1]
        if last.role == "tool":
            self._out[-1] = Message("", "tool", (*last.parts, result))
        else:
            self._out.append(Message.tool([result]))

    def _assistant(self, where: str, message: dict[str, Any]) -> None:
        parts: list[Part] = []
        thought, mark = sent_as(self._key, message)
        signed = {
            name: message[name] for name in ("reasoning_details", "reasoning_opaque") if message.get(name)
        }
        if thought or signed:
            kept = {**({self._key: signed} if signed else {}), **mark}
            parts.append(Reasoning(thought, kept or None))
        parts.extend(self._marked(self._content(where, message.get("content")), message))
        if isinstance(message.get("refusal"), str) and message["refusal"]:
            parts.append(Text(message["refusal"]))
        calls = message.get("tool_calls")
        if calls == []:
            raise refused(
                f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                "empty_array",
            )
        for call in calls or ():
            parts.append(self._call(where, call))
        self._out.append(Message("", "assistant", tuple(parts)))

    def _call(self, where: str, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(call.get("custom"), dict):
            return self._custom_call(where, call, call["custom"])
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise refused(
                f"Missing required parameter: '{where}.tool_calls[0].function'.", "missing_required_parameter"
            )
        for name, holder in (("id", call), ("name", function), ("arguments", function)):
            if not isinstance(holder.get(name), str):
                raise refused(f"Invalid type for '{where}.tool_calls[0].{name}': expected a string.")
        self._awaited.append(call["id"])
        self._names[call["id"]] = function["name"]
        kept = {name: call[name] for name in ("extra_content", "cache_control") if call.get(name)}
        metadata = {self._key: kept} if kept else None
        return ToolCall(call["id"], function["name"], function["arguments"], metadata=metadata)

    def _custom_call(self, where: str, call: dict[str, Any], custom: dict[str, Any]) -> ToolCall:
        """A call whose input is plain text."""
        for name, holder in (("id", call), ("name", custom), ("input", custom)):
            if not isinstance(holder.get(name), str):
                raise refused(f"Invalid type for '{where}.tool_calls[0].{name}': expected a string.")
        self._awaited.append(call["id"])
        self._names[call["id"]] = custom["name"]
        return ToolCall(call["id"], custom["name"], custom["input"], metadata=self._kept("type", CUSTOM_CALL))

    def _content(self, where: str, content: object) -> tuple[Part, ...]:
        if isinstance(content, str):
            return (Text(content),) if content else ()
        if content is None:
            return ()
        if not isinstance(content, list):
            raise refused(f"Invalid type for '{where}.content': expected a string or an array.")
        return tuple(self._part(f"{where}.content[{i}]", part) for i, part in enumerate(content))

    def _marked(self, parts: tuple[Part, ...], message: dict[str, Any]) -> tuple[Part, ...]:
        """A whole message marked for the cache is one whose last part is."""
        mark = message.get("cache_control")
        if not mark or not parts or not isinstance(parts[-1], (Text, Image, Audio, Document)):
            return parts
        last = parts[-1]
        kept = {"cache_control": mark, **(last.metadata or {}).get(self._key, {})}
        return (*parts[:-1], msgspec.structs.replace(last, metadata={self._key: kept}))

    def _part(self, where: str, part: object) -> Part:
        if not isinstance(part, dict):
            raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
        kind = part.get("type")
        inner = part.get(kind) if isinstance(kind, str) else None
        kept = self._kept("cache_control", part.get("cache_control"))
        if kind in ("text", "refusal") and isinstance(inner, str):
            return Text(inner, kept)
        if not isinstance(inner, dict):
            raise refused(f"Invalid value for '{where}.type': {kind!r}.", "invalid_value")
        if kind == "image_url":
            return self._image(where, inner, kept)
        if kind == "input_audio":
            return self._audio(where, inner, kept)
        if kind == "file":
            return self._file(where, inner, kept)
        raise refused(f"Invalid value for '{where}.type': {kind!r}.", "invalid_value")

    def _image(self, where: str, image: dict[str, Any], kept: Metadata | None) -> Image:
        url = image.get("url")
        if not isinstance(url, str):
            raise refused(f"Missing required parameter: '{where}.image_url.url'.")
        if image.get("detail"):
            kept = {self._key: {**(kept or {}).get(self._key, {}), "detail": image["detail"]}}
        if not url.startswith("data:"):
            return Image(url=url, metadata=kept)
        media_type, data = _data_uri(where, url)
        return Image(data=data, media_type=media_type, metadata=kept)

    def _audio(self, where: str, audio: dict[str, Any], kept: Metadata | None) -> Audio:
        """Bytes as base64; for some servers a URL, which may hold the bytes."""
        name, data = str(audio.get("format")), audio.get("data")
        media_type = _AUDIO_TYPES.get(name, f"audio/{name}")
        if isinstance(data, str) and data.startswith(("https://", "http://")):
            return Audio(url=data, media_type=media_type, metadata=kept)
        if isinstance(data, str) and data.startswith("data:"):
            return Audio(data=_data_uri(where, data)[1], media_type=media_type, metadata=kept)
        return Audio(data=_bytes(where, data), media_type=media_type, metadata=kept)

    def _file(self, where: str, file: dict[str, Any], kept: Metadata | None) -> Document:
        name, data = str(file.get("filename") or ""), file.get("file_data")
        if isinstance(file.get("file_id"), str):
            return Document(filename=name, metadata=self._kept("file_id", file["file_id"]))
        if not isinstance(data, str):
            raise refused(f"Missing required parameter: '{where}.file.file_data'.")
        if not data.startswith("data:"):
            return Document(url=data, filename=name, metadata=kept)
        media_type, content = _data_uri(where, data)
        return Document(data=content, media_type=media_type, filename=name, metadata=kept)

    def _kept(self, name: str, value: object) -> Metadata | None:
        return {self._key: {name: value}} if value else None


def _data_uri(where: str, uri: str) -> tuple[str, bytes]:
    head, _, data = uri[5:].partition(",")
    return head.partition(";")[0], _bytes(where, data)


def _bytes(where: str, data: object) -> bytes:
    try:
        return base64.b64decode(data if isinstance(data, str) else "?", validate=True)
    except ValueError:
        raise refused(f"Invalid '{where}': expected base64-encoded data.", "invalid_base64") from None
