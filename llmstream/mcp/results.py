"""Converts a server's result of a call to the outcome of a tool."""

from __future__ import annotations

import base64
import binascii
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from llmstream.chats.content import Audio, Document, Image, Text
from llmstream.errors import ToolError
from llmstream.tools import ToolOutcome

if TYPE_CHECKING:
    from mcp.types import CallToolResult

__all__ = ["outcome_of", "part_of", "resource_part"]


def outcome_of(result: CallToolResult) -> ToolOutcome:
    """Converts text to text, images, audio and files to parts, and structured content to a value.

    The model gets the texts, or without any the JSON of the structured content. A resource link becomes
    a line with its URI; nothing is fetched. isError makes it an error.

    raises: ToolError for invalid base64
    """
    texts: list[str] = []
    parts: list[Image | Document | Audio] = []
    for block in result.content:
        read = part_of(block)
        texts.append(read) if isinstance(read, str) else parts.append(read)
    text = "\n".join(texts)
    structured = _unwrapped(result.structured_content, text)
    if structured is not None and not texts:
        text = msgspec.json.encode(structured).decode()
    if result.is_error:
        text = text or "The tool failed without a message."
        return ToolOutcome(text, tuple(parts), error=text, exception=ToolError(text))
    plain = structured is None or structured == text
    return ToolOutcome(
        text, tuple(parts), value=text if plain else structured, output=None if plain else structured
    )


def _unwrapped(structured: Any, text: str) -> Any:
    """Removes the object that servers put around a value that is not one, if the text has the value."""
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        value = structured["result"]
        if value == text or msgspec.json.encode(value).decode() == text:
            return value
    return structured


def part_of(block: Any) -> str | Image | Document | Audio:
    """Converts a content block by its `type`; an unknown one becomes its JSON."""
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return Image(data=_bytes(block.data), media_type=block.mime_type)
        case "audio":
            return Audio(data=_bytes(block.data), media_type=block.mime_type)
        case "resource_link":
            return f"{block.title or block.name}: {block.uri}"
        case "resource" if hasattr(block.resource, "text"):
            return str(block.resource.text)
        case "resource":
            return _file(block.resource)
    return str(block.model_dump_json(by_alias=True, exclude_none=True))


def resource_part(resource: Any) -> Text | Image | Document | Audio:
    """Converts the content of a resource: text or a file."""
    return Text(str(resource.text)) if hasattr(resource, "text") else _file(resource)


def _file(resource: Any) -> Image | Document | Audio:
    data, media_type = _bytes(resource.blob), resource.mime_type or "application/octet-stream"
    if media_type.startswith("image/"):
        return Image(data=data, media_type=media_type)
    if media_type.startswith("audio/"):
        return Audio(data=data, media_type=media_type)
    filename = PurePosixPath(unquote(urlsplit(str(resource.uri)).path)).name
    return Document(data=data, media_type=media_type, filename=filename)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"The MCP server sent invalid base64: {error}") from None
