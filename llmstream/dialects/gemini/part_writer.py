"""Single parts of a conversation as parts of the wire; signatures go back on the part they came on."""

from __future__ import annotations

import base64
from typing import Any

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
from llmstream.dialects.call_ids import is_minted
from llmstream.dialects.gemini.part_decoder import CODE_EXECUTION, KEY, SIDE_FIELDS, TRANSCRIPTION
from llmstream.dialects.google_media import media_of
from llmstream.dialects.json_text import object_text
from llmstream.errors import Unsupported
from llmstream.events import OtherWarning, Warning
from llmstream.model_rules.gemini import GeminiRules

__all__ = ["SIDE_FIELDS", "PartWriter", "camel"]


def camel(name: str) -> str:
    """A name of ours as the wire writes it."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


class PartWriter:
    """Writes parts; what the API has no form for is left out with a warning."""

    def __init__(self, *, provider: str, vertex: bool, rules: GeminiRules, warnings: list[Warning]) -> None:
        self._provider = provider
        self._vertex = vertex
        self._rules = rules
        self._warnings = warnings

    def user_part(self, part: Part) -> dict[str, Any] | None:
        """A part of the user's turn; None where there is nothing to say.

        raises: Unsupported for media that cannot be sent
        """
        match part:
            case Text(text=text):
                return {"text": text, **_beside(part)} if text else None
            case Image() | Audio() | Document() | File():
                return self.media(part)
            case Source():
                return None
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return _custom(part)
        self._left_out(part)
        return None

    def model_part(self, part: Part) -> dict[str, Any] | None:
        """A part of the model's turn; None where there is nothing to say."""
        match part:
            case Text() | Reasoning():
                return self._prose(part)
            case ToolCall():
                return self._vendor_call(part) if part.provider_executed else self._call(part)
            case ToolResult():
                return self._vendor_result(part)
            case File():
                return self._file(part)
            case Image() | Audio() | Document():
                return self.media(part)
            case Source():
                return None  # told by the grounding of the text, or for the reader alone
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return _custom(part)
        self._left_out(part)
        return None

    def media(self, part: Image | Audio | Document | File) -> dict[str, Any]:
        """`inlineData` for bytes, `fileData` for an address.

        raises: Unsupported
        """
        media = media_of(part, fetches_urls=self._rules.fetches_urls, provider=self._provider)
        if media.url is None:
            data = base64.b64encode(media.data or b"").decode()
            return {"inlineData": {"mimeType": media.media_type, "data": data}, **_beside(part)}
        if self._vertex and not media.media_type:
            raise Unsupported(
                f"the media type of {media.url!r} is unknown, and Vertex AI wants it. Set media_type.",
                provider=self._provider,
            )
        kind = {"mimeType": media.media_type} if media.media_type else {}
        return {"fileData": {**kind, "fileUri": media.url}, **_beside(part)}

    def id_of(self, call_id: str) -> dict[str, str]:
        """The field `id`: Vertex AI refuses it, and a minted one says nothing to the vendor."""
        return {} if self._vertex or is_minted(call_id) else {"id": call_id}

    def _prose(self, part: Text | Reasoning) -> dict[str, Any] | None:
        beside = _beside(part)
        if not part.text and "thoughtSignature" not in beside:
            return None
        thought = {"thought": True} if isinstance(part, Reasoning) else {}
        return {"text": part.text, **thought, **beside}

    def _call(self, part: ToolCall) -> dict[str, Any]:
        args = object_text(part.arguments, key="input")
        return {"functionCall": {**self.id_of(part.id), "name": part.name, "args": args}, **_beside(part)}

    def _vendor_call(self, part: ToolCall) -> dict[str, Any] | None:
        args = object_text(part.arguments, key="input")
        told = _told(part)
        if part.name == CODE_EXECUTION and b'"code"' in bytes(args):
            code = {**msgspec.json.decode(args), **self.id_of(part.id)}
            return {"executableCode": code, **_beside(part)}
        if told.get("tool_type"):
            call = {"toolType": told["tool_type"], **self.id_of(part.id), "args": args}
            return {"toolCall": call, **_beside(part)}
        self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
        return None

    def _vendor_result(self, part: ToolResult) -> dict[str, Any] | None:
        told = _told(part)
        if isinstance(part.result, dict) and "outcome" in part.result:
            return {"codeExecutionResult": {**part.result, **self.id_of(part.tool_call_id)}, **_beside(part)}
        if told.get("tool_type"):
            response = {"toolType": told["tool_type"], **self.id_of(part.tool_call_id)}
            return {"toolResponse": {**response, "response": part.result}, **_beside(part)}
        self._warn(f"the result of {part.tool_call_id!r}, which another vendor ran, was left out")
        return None

    def _file(self, part: File) -> dict[str, Any] | None:
        """A file the model made goes back, for the next edit of it; drafts are thoughts."""
        try:
            written = self.media(part)
        except Unsupported as error:
            self._warn(f"a file of type {part.media_type!r} was left out: {error.message}")
            return None
        if (part.metadata or {}).get("llmstream", {}).get("reasoning"):
            written["thought"] = True
        return written

    def _left_out(self, part: Part) -> None:
        self._warn(f"a part of kind {part_kind(part)!r} was left out: the API has no form for it")

    def _warn(self, message: str) -> None:
        warning = OtherWarning(message)
        if warning not in self._warnings:
            self._warnings.append(warning)


def _told(part: Any) -> dict[str, Any]:
    """What the metadata holds for this vendor."""
    return dict((part.metadata or {}).get(KEY, {}))


def _beside(part: Any) -> dict[str, Any]:
    told = _told(part)
    return {camel(name): told[name] for name in SIDE_FIELDS if name in told}


def _custom(part: Custom) -> dict[str, Any] | None:
    """A part that only this vendor knows, as it came; None for what only answers have."""
    told = _told(part)
    if part.type == f"{KEY}.{TRANSCRIPTION}":
        return None
    beside = _beside(part)
    inner = {key: value for key, value in told.items() if key not in SIDE_FIELDS}
    return {camel(part.type.removeprefix(f"{KEY}.")): inner, **beside}
