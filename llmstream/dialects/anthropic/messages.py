"""Writes messages as the system prompt and the turns of the Messages API.

Adjacent messages of one role become one turn. In a user turn the tool results come first, in an
assistant turn the calls come last: the API rejects every other order.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterator, Sequence
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
    Source,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
    sniffed_type,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.anthropic.quirks import Quirks
from llmstream.dialects.anthropic.wire import KEY
from llmstream.dialects.history_parts import MOVED_UP, result_text, role_of, system_text
from llmstream.dialects.requests import RequestWarnings
from llmstream.dialects.written import Carry, in_turns, write
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.unique_ids import UniqueIds

__all__ = ["Conversation", "accepts_url", "blocks_of", "read_media"]


# Images and documents.

_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml")


def accepts_url(part: Image | Audio | Document | File, *, quirks: Quirks) -> bool:
    """Whether a part can be sent as a URL; a text document has to be sent as text."""
    if not isinstance(part, (Image, Document)):
        # Audio is rejected and files are left out, with or without their bytes.
        return True
    if part.url[:5].lower() == "data:":
        return part.url.startswith("data:") and part.url.partition(",")[0].endswith(";base64")
    if not quirks.url_sources:
        return False
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or ""
    return isinstance(part, Image) or not kind.startswith(_TEXTS)


def encode_media(part: Image | Document, *, provider: str, quirks: Quirks) -> dict[str, Any]:
    """Returns the block of an image or document, with title, context, citations ... from its metadata.

    raises: Unsupported for media types and sources that the server does not support
    """
    extra = dict((part.metadata or {}).get(KEY, {}))
    file_id = extra.pop("file_id", None)
    kind = "image" if isinstance(part, Image) else "document"
    block: dict[str, Any] = {"type": kind, "source": _source(part, file_id, provider, quirks)}
    if isinstance(part, Document) and part.filename:
        block["title"] = part.filename
    return {**block, **extra}


def read_media(block: dict[str, Any]) -> Image | Document | None:
    """Returns the part of a block; None for sources that parts cannot hold."""
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    extra = {k: v for k, v in block.items() if k not in ("type", "source", "title")}
    fields: dict[str, Any] = {}
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            try:
                fields = {"data": base64.b64decode(data, validate=True), "media_type": media_type}
            except (binascii.Error, ValueError):
                return None
        case {"type": "url", "url": str(url)}:
            fields = {"url": url}
        case {"type": "text", "data": str(text)}:
            fields = {"data": text.encode("utf-8", "replace"), "media_type": "text/plain"}
        case {"type": "file", "file_id": str(file_id)}:
            extra["file_id"] = file_id
        case _:
            return None
    metadata: Metadata | None = {KEY: extra} if extra else None
    if block.get("type") == "image":
        return Image(**fields, metadata=metadata)
    title = block.get("title")
    return Document(**fields, filename=title if isinstance(title, str) else "", metadata=metadata)


def _source(part: Image | Document, file_id: Any, provider: str, quirks: Quirks) -> dict[str, Any]:
    if part.url.startswith("data:"):
        media_type, data = _data_url(part.url, provider)
        return _inline(part, media_type or part.media_type, data, provider)
    if part.data:
        return _inline(part, part.media_type, part.data, provider)
    if not file_id and not part.url:
        raise Unsupported(f"{_name(part)} has neither bytes nor a URL", provider=provider)
    if not quirks.url_sources:
        raise Unsupported(
            f"{_name(part)}: this server does not support URLs and file ids. Download it and pass its bytes.",
            provider=provider,
        )
    return {"type": "file", "file_id": file_id} if file_id else {"type": "url", "url": part.url}


def _inline(part: Image | Document, media_type: str, data: bytes, provider: str) -> dict[str, Any]:
    media_type = media_type.split(";")[0].strip().lower() or sniffed_type(data)
    # A common name for image/jpeg, which the API does not know.
    if media_type == "image/jpg":
        media_type = "image/jpeg"
    image = media_type.startswith("image/")
    # The API takes text as plain text only, whatever its kind.
    if isinstance(part, Document) and media_type.startswith(_TEXTS):
        return {"type": "text", "media_type": "text/plain", "data": data.decode("utf-8", "replace")}
    if image != isinstance(part, Image) or not (image or media_type == "application/pdf"):
        raise Unsupported(
            f"{_name(part)} of media type {media_type or 'unknown'!r} cannot be sent: the API supports "
            "images (JPEG, PNG, GIF, WebP), PDF and plain text. Convert it, or set media_type.",
            provider=provider,
        )
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def _data_url(url: str, provider: str) -> tuple[str, bytes]:
    head, _, data = url.partition(",")
    try:
        return head[5:].removesuffix(";base64"), base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Unsupported("a data URL is not base64", provider=provider) from None


def _name(part: Image | Document) -> str:
    return "an image" if isinstance(part, Image) else f"the document {part.filename!r}"


_ROLES: Final = {
    Role.SYSTEM: "system",
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "assistant",
}
_NO_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")


class _Carry(Carry):
    """What messages depend on, of those before.

    system:    the blocks of the system prompt
    ids:       by another vendor's id of a call
    wire_ids:  in use
    cited:     citations of a document were left out
    """

    system: list[dict[str, Any]] = msgspec.field(default_factory=list)
    ids: dict[str, str] = msgspec.field(default_factory=dict)
    wire_ids: UniqueIds = msgspec.field(default_factory=lambda: UniqueIds("_"))
    cited: bool = False


class Conversation:
    """Collects blocks by turn.

    system:   the blocks of the system prompt
    messages: the turns of the body, as objects or as JSON
    cited:    citations of a document were left out

    system_turns: keeps system messages inside the conversation, as turns of their own
    citations:    documents may be cited
    """

    def __init__(
        self,
        *,
        provider: str,
        quirks: Quirks,
        warnings: RequestWarnings,
        system_turns: bool = False,
        citations: bool = True,
    ) -> None:
        self.system: list[dict[str, Any]] = []
        self.messages: list[Any] = []
        self.cited = False
        self._system_turns = system_turns
        self._citations = citations
        # Of one segment of the conversation.
        self._turns: list[dict[str, Any]] = []
        self._waiting: list[dict[str, Any]] = []  # instructions between a call and its result
        self._joins = False
        self._carry = _Carry()
        self._provider = provider
        self._quirks = quirks
        self._warnings = warnings
        self._warn = warnings.note_once

    def read(self, messages: Sequence[Message]) -> None:
        """Adds a complete conversation.

        raises: InvalidRequest for unknown roles and empty conversations, Unsupported for audio
        """
        wire = (self._quirks, self._provider, self._system_turns, self._citations)
        self.messages, carry = write(
            messages, _Carry(), self._segment, *wire, warnings=self._warnings, stays=_is_marked
        )
        # Marks of the prompt cache may be taken out of them.
        self.system, self.cited = [block.copy() for block in carry.system], carry.cited
        if not self.messages:
            raise InvalidRequest(
                "the conversation is empty: the API requires at least one message with content"
            )

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._turns, self._waiting, self._carry, self._joins = [], [], carry, False
        for message in messages:
            role = _ROLES[role_of(message)]
            for part in message.parts:
                self._part(role, part)
            self._place_waiting()
        unplaced = bool(self._waiting)
        if unplaced:
            self._move_up(self._waiting)
        for turn in self._turns:
            if len(turn["content"]) > 1:
                # Results come first in a user turn, calls last in an assistant turn; the sort is stable.
                turn["content"].sort(key=_rank)
        if self._turns and self._turns[-1]["role"] == "assistant":
            # A prefix of an answer that ends in white space is rejected.
            self._trim(self._turns[-1]["content"])
        if not self._citations and _drop_citations(self._turns):
            carry.cited = True
        if self._joins:
            return None
        made = in_turns([turn for turn in self._turns if turn["content"]], carry)
        carry.unfinished = carry.unfinished or unplaced
        return made

    def _part(self, role: str, part: Part) -> None:
        if role == "system":
            self._system(part)
            return
        block = self._block(role, part)
        if block is None:
            return
        by_vendor = isinstance(part, (ToolCall, ToolResult)) and part.provider_executed
        self._turn("assistant" if by_vendor else role).append(block)

    def _turn(self, role: str) -> list[dict[str, Any]]:
        if not self._turns or self._turns[-1]["role"] != role:
            self._turns.append({"role": role, "content": []})
        content: list[dict[str, Any]] = self._turns[-1]["content"]
        return content

    def _system(self, part: Part) -> None:
        text = system_text(part, moved=False, warn=self._warn)
        blocks = [{"type": "text", "text": text, **_metadata_of(part)}] if text else []
        if not self._turns and not self._carry.begun:
            self._carry.system += blocks
        elif self._system_turns:
            self._waiting += blocks
        else:
            self._move_up(blocks)

    def _move_up(self, blocks: list[dict[str, Any]]) -> None:
        self._warn(MOVED_UP)
        self._carry.system += blocks

    def _place_waiting(self) -> None:
        """Adds instructions after the last turn, unless it has calls, whose results come next."""
        last = self._turns[-1] if self._turns else None
        if self._waiting and last is None:
            self._joins = True  # they follow a turn that precedes the segment
        elif self._waiting and last and not any(block["type"] == "tool_use" for block in last["content"]):
            self._turn("system").extend(self._waiting)
            self._waiting = []

    def _block(self, role: str, part: Part) -> dict[str, Any] | None:
        match part:
            case Text():
                return (
                    {"type": "text", "text": part.text, **_metadata_of(part)} if part.text.strip() else None
                )
            case Image() | Document():
                return encode_media(part, provider=self._provider, quirks=self._quirks)
            case Reasoning():
                return self._reasoning(role, part)
            case ToolCall():
                return self._call(part)
            case ToolResult():
                return self._result(part)
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return {"type": kind.removeprefix(f"{KEY}."), **_metadata_of(part)}
            case Source():
                # Covered by the citations of the text, or not meant for the model.
                return None
            case Audio():
                raise Unsupported(
                    "the Messages API does not support audio. Send a transcript instead.",
                    provider=self._provider,
                )
            case File():
                self._warn(f"a file of type {part.media_type!r} was left out: the API takes no files back")
            case _:
                self._warn(f"a part of kind {part_kind(part)!r} was left out: the API has no block for it")
        return None

    def _reasoning(self, role: str, part: Reasoning) -> dict[str, Any] | None:
        extra = _metadata_of(part)
        if role == "assistant":
            # Sent back exactly: the signature covers the block.
            if "redacted_data" in extra:
                return {"type": "redacted_thinking", "data": extra["redacted_data"]}
            if extra.get("signature"):
                return {"type": "thinking", "thinking": part.text, "signature": extra["signature"]}
            if self._quirks.unsigned_thinking == "keep":
                return {"type": "thinking", "thinking": part.text, "signature": ""}
            if self._quirks.unsigned_thinking == "text" and part.text.strip():
                self._warn("reasoning without a signature was sent as text: the API requires the signature")
                return {"type": "text", "text": part.text}
        self._warn("reasoning without a signature was left out: the API requires the signature")
        return None

    def _call(self, part: ToolCall) -> dict[str, Any] | None:
        extra = _metadata_of(part)
        if part.provider_executed and "type" not in extra:
            self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
            return None
        block = {"type": "tool_use", "id": self._wire_id(part.id), "name": part.name}
        return {**block, **extra, "input": _input(part.arguments)}

    def _result(self, part: ToolResult) -> dict[str, Any] | None:
        extra = _metadata_of(part)
        if part.provider_executed:
            if "type" not in extra:
                self._warn(f"the result of {part.tool_call_id!r}, which another vendor ran, was left out")
                return None
            block = {**extra, "tool_use_id": self._wire_id(part.tool_call_id), "content": part.result}
            return {**block, "is_error": part.is_error} if extra["type"] == "mcp_tool_result" else block
        text = result_text(part)
        content: Any = text
        if part.parts:
            # Empty and blank texts are rejected.
            content = [{"type": "text", "text": text}] if text.strip() else []
            for piece in part.parts:
                content.append(self._block("user", piece))
        block = {"type": "tool_result", "tool_use_id": self._wire_id(part.tool_call_id), "content": content}
        if part.is_error:
            block["is_error"] = True
        return {**block, **extra}

    def _wire_id(self, call_id: str) -> str:
        """Maps another vendor's id to the characters that the API allows; equal for call and result.

        Ids that differ only in other characters stay distinct.
        """
        ids = self._carry.ids
        if call_id not in ids:
            ids[call_id] = self._carry.wire_ids.fresh(_NO_ID.sub("_", call_id) or "call")
        return ids[call_id]

    def _trim(self, content: list[dict[str, Any]]) -> None:
        # The API rejects a prefix of a response that ends in white space.
        if content and content[-1]["type"] == "text":
            content[-1]["text"] = content[-1]["text"].rstrip()


def _is_marked(turn: dict[str, Any]) -> bool:
    """Whether a block of a turn carries a mark of the prompt cache, which its request may remove."""
    return any("cache_control" in block for block in blocks_of(turn))


def blocks_of(turn: dict[str, Any]) -> Iterator[Any]:
    """Yields the blocks of a turn that can have a cache mark, those within tool results included."""
    for block in turn["content"] if isinstance(turn["content"], list) else ():
        if isinstance(block, dict) and isinstance(block.get("content"), list):
            yield from block["content"]
        yield block


def _drop_citations(turns: list[dict[str, Any]]) -> bool:
    """Removes `citations` from the documents. Returns whether one had them."""
    found = False
    for turn in turns:
        for block in turn["content"]:
            if block["type"] == "document" and block.pop("citations", None) is not None:
                found = True
    return found


def _rank(block: dict[str, Any]) -> int:
    return {"tool_result": 0, "tool_use": 2}.get(block["type"], 1)


def _metadata_of(part: Any) -> dict[str, Any]:
    """Returns the metadata of this vendor: cache_control, citations, signatures and so on."""
    return dict((part.metadata or {}).get(KEY, {}))


def _input(arguments: str) -> Any:
    """Returns the input of a call: a JSON object unchanged, any other text wrapped in one."""
    text = arguments.strip()
    if text in ("", "null"):
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = arguments
    return msgspec.Raw(text.encode()) if isinstance(value, dict) else {"input": value}
