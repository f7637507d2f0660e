"""Encodes text, images and files as parts of the input."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Callable
from typing import Any, Final

from llmstream.chats.content import Audio, Document, File, Image, Part, Text, part_kind
from llmstream.dialects.media import data_uri, image_type, read_data_uri
from llmstream.dialects.openai_responses.quirks import InputQuirks
from llmstream.dialects.openai_responses.wire import KEY
from llmstream.errors import Unsupported

__all__ = ["PART_EXTRAS", "accepts_url", "own", "plain_items", "write_part"]


INPUT_PARTS: Final = ("input_text", "input_image", "input_file", "input_audio")
_AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
PART_EXTRAS: Final = ("detail", "prompt_cache_breakpoint", "cache_control")


def own(part: object) -> dict[str, Any]:
    """Returns this dialect's metadata of a part."""
    own_fields: dict[str, Any] = (getattr(part, "metadata", None) or {}).get(KEY) or {}
    return own_fields


def accepts_url(url: str, quirks: InputQuirks) -> bool:
    """Whether a part can be sent as this URL."""
    return quirks.urls or not url.startswith(("http://", "https://"))


def write_part(part: Part, quirks: InputQuirks, *, provider: str) -> dict[str, Any]:
    """Encodes a part of a user's message or of a tool's result.

    raises: Unsupported if the wire does not support it
    """
    own_fields = own(part)
    extras: dict[str, Any] = {name: own_fields[name] for name in PART_EXTRAS if name in own_fields}
    if isinstance(part, Image | Document | File) and not part.data and not accepts_url(part.url, quirks):
        raise Unsupported(
            f"{provider} accepts files as bytes only. Download it and pass data=.", provider=provider
        )
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text, **extras}
    if isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/")):
        if "file_id" in own_fields:
            return {"type": "input_image", "file_id": own_fields["file_id"], **extras}
        url = part.url
        if part.data:
            url = data_uri(part.data, part.media_type or image_type(part.data))
        return {"type": "input_image", "image_url": url, **extras}
    if isinstance(part, (Document, File)):
        return {"type": "input_file", **_document(part, own_fields), **extras}
    if isinstance(part, Audio) and quirks.audio and part.data:
        kind = _AUDIO_FORMATS.get(part.media_type, part.media_type.rpartition("/")[2])
        data = base64.b64encode(part.data).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    if isinstance(part, Audio):
        raise Unsupported("the Responses API accepts no audio. Send a transcript instead.", provider=provider)
    raise Unsupported(f"the Responses API does not support a part of kind {part_kind(part)!r} in a message.")


def _document(part: Document | File, own_fields: dict[str, Any]) -> dict[str, Any]:
    if "file_id" in own_fields:
        return {"file_id": own_fields["file_id"]}
    name = part.filename if isinstance(part, Document) else ""
    if not part.data:
        return {"file_url": part.url, **({"filename": name} if name else {})}
    kind = part.media_type or "application/pdf"
    name = name or f"document{mimetypes.guess_extension(kind) or ''}"
    return {"filename": name, "file_data": data_uri(part.data, kind)}


# Items of the input for servers that refuse fields and items that only OpenAI has.
#
# What is left are messages of text and images, functions and their outputs.

_CALL: Final[tuple[str, ...]] = ("type", "call_id", "name", "arguments", "thought_signature")
# Fields of a call that its output repeats: models of other vendors behind the server require them.
_OUTPUT: Final[tuple[str, ...]] = ("name", "thought_signature")


def plain_items(
    items: list[dict[str, Any]], *, provider: str, warn: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Converts items to those that such a server accepts.

    raises: Unsupported for files
    """
    out: list[dict[str, Any]] = []
    calls: dict[object, dict[str, Any]] = {}
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            out.append({"type": "message", "role": item["role"], "content": _content(item, provider)})
        elif kind == "function_call":
            call = calls[item.get("call_id")] = {name: item[name] for name in _CALL if name in item}
            out.append(call)
        elif kind == "function_call_output":
            call = calls.get(item.get("call_id"), {})
            extras: dict[str, Any] = {name: call[name] for name in _OUTPUT if name in call}
            output = _text(item.get("output"), provider, warn)
            out.append({"type": kind, "call_id": item["call_id"], "output": output, **extras})
        else:
            warn(f"calls of {provider}'s own tools were left out: its input has no such items")
    return out


def _content(item: dict[str, Any], provider: str) -> str | list[dict[str, Any]]:
    """Encodes the content of a message: the model's as one string, any other part by part."""
    content = item.get("content")
    if not isinstance(content, list):
        return str(content or "")
    if item["role"] == "assistant":
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
    return [_part(part, provider) for part in content]


def _part(part: dict[str, Any], provider: str) -> dict[str, Any]:
    kind = part.get("type")
    if kind == "input_image" and part.get("image_url"):
        return {"type": kind, "image_url": part["image_url"]}
    if kind == "input_text":
        return {"type": kind, "text": part.get("text", "")}
    found = read_data_uri(part["file_data"]) if isinstance(part.get("file_data"), str) else None
    if found is not None and found[0].startswith("text/"):
        return {"type": "input_text", "text": found[1].decode("utf-8", "replace")}
    raise Unsupported(
        f"{provider} accepts no files. Send the text, or pages as images.",
        provider=provider,
    )


def _text(output: object, provider: str, warn: Callable[[str], None]) -> str:
    """Returns the output of a function as one text."""
    if not isinstance(output, list):
        return str(output or "")
    parts = [_part(part, provider) for part in output if isinstance(part, dict)]
    if any(part["type"] == "input_image" for part in parts):
        warn(f"an image in a tool's result was left out: {provider} accepts only text there")
    return "\n".join(part["text"] for part in parts if part["type"] == "input_text")
