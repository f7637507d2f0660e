"""Text, images and files as parts of the input, and back."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from collections.abc import Callable
from typing import Any, Final

from llmstream.chats.content import Audio, Document, File, Image, Metadata, Part, Text, part_kind
from llmstream.dialects.media import data_uri, image_type, read_data_uri
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.wire import KEY
from llmstream.errors import Unsupported
from llmstream.serving.wires.openai_errors import refused

__all__ = ["may_stay", "own", "plain_items", "read_part", "write_part"]


INPUT_PARTS: Final = ("input_text", "input_image", "input_file", "input_audio")
_AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_EXTRAS: Final = ("detail", "prompt_cache_breakpoint", "cache_control")


def own(part: object) -> dict[str, Any]:
    """What this dialect keeps in a part's metadata."""
    told: dict[str, Any] = (getattr(part, "metadata", None) or {}).get(KEY) or {}
    return told


def may_stay(url: str, quirks: Quirks) -> bool:
    """Whether the server fetches from an address itself."""
    return quirks.urls or not url.startswith(("http://", "https://"))


def write_part(part: Part, quirks: Quirks, *, provider: str) -> dict[str, Any]:
    """The part of a user's message or of a tool's result.

    raises: Unsupported where the wire has no word for it
    """
    told = own(part)
    extras: dict[str, Any] = {name: told[name] for name in _EXTRAS if name in told}
    if isinstance(part, Image | Document | File) and not part.data and not may_stay(part.url, quirks):
        raise Unsupported(
            f"{provider} takes files as bytes only. Download it and pass data=.", provider=provider
        )
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text, **extras}
    if isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/")):
        if "file_id" in told:
            return {"type": "input_image", "file_id": told["file_id"], **extras}
        url = part.url
        if part.data:
            url = data_uri(part.data, part.media_type or image_type(part.data))
        return {"type": "input_image", "image_url": url, **extras}
    if isinstance(part, (Document, File)):
        return {"type": "input_file", **_document(part, told), **extras}
    if isinstance(part, Audio) and quirks.audio and part.data:
        kind = _AUDIO_FORMATS.get(part.media_type, part.media_type.rpartition("/")[2])
        data = base64.b64encode(part.data).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    if isinstance(part, Audio):
        raise Unsupported("the Responses API takes no audio. Send a transcript instead.", provider=provider)
    raise Unsupported(f"the Responses API has no word for a part of kind {part_kind(part)!r} in a message.")


def _document(part: Document | File, told: dict[str, Any]) -> dict[str, Any]:
    if "file_id" in told:
        return {"file_id": told["file_id"]}
    name = part.filename if isinstance(part, Document) else ""
    if not part.data:
        return {"file_url": part.url, **({"filename": name} if name else {})}
    kind = part.media_type or "application/pdf"
    name = name or f"document{mimetypes.guess_extension(kind) or ''}"
    return {"filename": name, "file_data": data_uri(part.data, kind)}


def read_part(where: str, part: object) -> Part:
    """The reverse of `write_part`.

    raises: BadRequest with the vendor's message
    """
    if not isinstance(part, dict):
        raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
    kind = part.get("type")
    if kind not in INPUT_PARTS:
        raise refused(
            f"Invalid value: {kind!r}. Supported values are: {', '.join(map(repr, INPUT_PARTS))}.",
            "invalid_value",
        )
    kept = {name: part[name] for name in _EXTRAS if part.get(name) is not None}
    if kind == "input_text":
        if not isinstance(part.get("text"), str):
            raise refused(f"Missing required parameter: '{where}.text'.", "missing_required_parameter")
        return Text(part["text"], _metadata(kept))
    if kind == "input_image":
        return _image(where, part, kept)
    if kind == "input_file":
        return _file(where, part, kept)
    audio = part.get("input_audio")
    if not isinstance(audio, dict):
        raise refused(f"Missing required parameter: '{where}.input_audio'.", "missing_required_parameter")
    name = str(audio.get("format"))
    data = _bytes(where, audio.get("data"))
    return Audio(data=data, media_type=_AUDIO_TYPES.get(name, f"audio/{name}"))


def _image(where: str, part: dict[str, Any], kept: dict[str, Any]) -> Image:
    if isinstance(part.get("file_id"), str):
        return Image(metadata=_metadata({**kept, "file_id": part["file_id"]}))
    url = part.get("image_url")
    if not isinstance(url, str):
        raise refused(f"Missing required parameter: '{where}.image_url'.", "missing_required_parameter")
    found = _data_uri(where, url)
    if found is None:
        return Image(url=url, metadata=_metadata(kept))
    return Image(data=found[1], media_type=found[0], metadata=_metadata(kept))


def _file(where: str, part: dict[str, Any], kept: dict[str, Any]) -> Document:
    name = str(part.get("filename") or "")
    if isinstance(part.get("file_id"), str):
        return Document(filename=name, metadata=_metadata({**kept, "file_id": part["file_id"]}))
    if isinstance(part.get("file_url"), str):
        return Document(url=part["file_url"], filename=name, metadata=_metadata(kept))
    data = part.get("file_data")
    if not isinstance(data, str):
        raise refused(f"Missing required parameter: '{where}.file_data'.", "missing_required_parameter")
    found = _data_uri(where, data)
    if found is None:
        found = ("application/pdf", _bytes(where, data))
    return Document(data=found[1], media_type=found[0], filename=name, metadata=_metadata(kept))


def _metadata(kept: dict[str, Any]) -> Metadata | None:
    return {KEY: kept} if kept else None


def _data_uri(where: str, url: str) -> tuple[str, bytes] | None:
    try:
        return read_data_uri(url)
    except ValueError:
        raise refused(f"Invalid '{where}': expected base64-encoded data.", "invalid_base64") from None


def _bytes(where: str, data: object) -> bytes:
    try:
        return base64.b64decode(data if isinstance(data, str) else "?", validate=True)
    except binascii.Error:
        raise refused(f"Invalid '{where}': expected base64-encoded data.", "invalid_base64") from None


# Items of the input for servers that refuse fields and items that only OpenAI knows.
#
# What is left are messages of text and images, functions and their outputs.

_CALL: Final[tuple[str, ...]] = ("type", "call_id", "name", "arguments", "thought_signature")
_OUTPUT: Final[tuple[str, ...]] = ("name", "thought_signature")
"""What an output repeats of its call; models of some vendors behind the server want it."""


def plain_items(
    items: list[dict[str, Any]], *, provider: str, warn: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The same conversation in items that such a server takes.

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
            warn(f"what {provider}'s own tools did does not go back: its input has no such items")
    return out


def _content(item: dict[str, Any], provider: str) -> str | list[dict[str, Any]]:
    """The model's own words as one string, others' part by part."""
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
        f"{provider} takes no files. Send the text, or pages as images.",
        provider=provider,
    )


def _text(output: object, provider: str, warn: Callable[[str], None]) -> str:
    """What a function gave, as one text."""
    if not isinstance(output, list):
        return str(output or "")
    parts = [_part(part, provider) for part in output if isinstance(part, dict)]
    if any(part["type"] == "input_image" for part in parts):
        warn(f"an image that a tool gave was left out: {provider} takes texts alone there")
    return "\n".join(part["text"] for part in parts if part["type"] == "input_text")
