"""Text, images and files as parts of the input, and back."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from typing import Any, Final

from llmstream.chats.content import Audio, Document, File, Image, Metadata, Part, Text, part_kind
from llmstream.dialects.data_uris import data_uri, read_data_uri
from llmstream.dialects.media_type import image_type
from llmstream.dialects.openai_answers import refused
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.sources import KEY
from llmstream.errors import Unsupported

__all__ = ["INPUT_PARTS", "may_stay", "own", "read_part", "write_part"]

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
