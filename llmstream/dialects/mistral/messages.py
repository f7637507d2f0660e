"""A conversation as this wire has it: our messages to `messages`.

The vendor checks the order of roles: a system message stands before answers, after tool results
comes the assistant, every call has its result, and an answer that stands last is the beginning of
the next one.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable
from typing import Any, Final

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
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.call_ids import ShortCallIds
from llmstream.dialects.history_parts import own_parts, role_of, told_result, without_custom_parts
from llmstream.dialects.media import audio_type, data_uri, read_data_uri
from llmstream.dialects.mistral.wire import KEY
from llmstream.dialects.requests import RequestWarnings
from llmstream.errors import Unsupported

__all__ = ["MessageWriter", "accepts_url", "decode_media"]


# Images, recordings and documents as parts of this wire's content, and back.


def own(part: object) -> dict[str, Any]:
    """What the vendor wants back with a part."""
    found: dict[str, Any] = (getattr(part, "metadata", None) or {}).get(KEY) or {}
    return found


def accepts_url(part: Image | Audio | Document | File) -> bool:
    """Whether a part may be given by its URL."""
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or ""
    return not (isinstance(part, Document) and kind.startswith("text/"))


def encode_media(part: Image | Audio | Document | File) -> dict[str, Any]:
    """The content part; bytes travel in a data URL, recordings as bare base64, texts as text."""
    if isinstance(part, Audio):
        data = base64.b64encode(part.data).decode() if part.data else part.url
        return {"type": "input_audio", "input_audio": data}
    if own(part).get("file_id"):
        return {"type": "file", "file_id": own(part)["file_id"]}
    if isinstance(part, Image) or part.media_type.startswith("image/"):
        url = data_uri(part.data, part.media_type or "image/png") if part.data else part.url
        detail = own(part).get("detail")
        return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
    if part.data and part.media_type.startswith("text/"):
        return {"type": "text", "text": part.data.decode("utf-8", "replace")}
    url = data_uri(part.data, part.media_type or "application/pdf") if part.data else part.url
    name = getattr(part, "filename", "")
    return {"type": "document_url", "document_url": url, **({"document_name": name} if name else {})}


def decode_media(part: dict[str, Any]) -> Part | None:
    """The part that a content part means; None where it is of another kind or says nothing.

    raises: ValueError where its content is not base64
    """
    kind = part.get("type")
    held = part.get(str(kind))
    if kind == "file" and isinstance(part.get("file_id"), str):
        return Document(metadata={KEY: {"file_id": part["file_id"]}})
    if kind == "input_audio":
        return _audio(held)
    url = held.get("url") if isinstance(held, dict) else held
    if kind not in ("image_url", "document_url") or not isinstance(url, str):
        return None
    inline = read_data_uri(url)
    if kind == "image_url":
        detail = held.get("detail") if isinstance(held, dict) else None
        kept: Metadata | None = {KEY: {"detail": detail}} if detail else None
        if inline is None:
            return Image(url=url, metadata=kept)
        return Image(data=inline[1], media_type=inline[0], metadata=kept)
    name = str(part.get("document_name") or "")
    if inline is None:
        return Document(url=url, filename=name)
    return Document(data=inline[1], media_type=inline[0], filename=name)


def _audio(held: object) -> Audio | None:
    """A recording as bare base64, as a URL, or in an object as other vendors have it."""
    data = held.get("data") if isinstance(held, dict) else held
    if not isinstance(data, str):
        return None
    if "://" in data:
        return Audio(url=data)
    inline = read_data_uri(data)
    if inline is not None:
        return Audio(data=inline[1], media_type=inline[0])
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return Audio(url=data)  # whatever else the vendor knows it by
    return Audio(data=content, media_type=audio_type(content))


BRIDGE: Final = "OK"
"""What the assistant is made to say between tool results and the user's next words."""

NO_RESULT: Final = "There is no result: the call was not run."


class MessageWriter:
    """Writes the messages of one request.

    warnings: what was left out or moved
    """

    def __init__(self, *, provider: str) -> None:
        self.warnings = RequestWarnings()
        self._warn = self.warnings.note_once
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
            role = role_of(message)
            if role == Role.SYSTEM:
                self._on_system(message)
            elif role == Role.USER:
                self._on_user(message)
            elif role == Role.ASSISTANT:
                self._on_assistant(message)
            else:
                self._on_results(message.parts)
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
        for part in own_parts(message, key=KEY, provider=self._provider, warn=self._warn):
            if isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Reasoning):
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
