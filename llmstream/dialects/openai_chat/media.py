"""Images, recordings and files as parts of a message's content."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any, Final

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.data_uris import data_uri
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.errors import Unsupported

__all__ = ["accepts_url", "own", "write_media"]

_AUDIO_FORMATS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def own(part: object, provider: str) -> dict[str, Any]:
    """What a provider wants back with a part."""
    metadata = getattr(part, "metadata", None) or {}
    found: dict[str, Any] = metadata.get(provider) or {}
    return found


def accepts_url(part: Image | Audio | Document | File, quirks: Quirks) -> bool:
    """Whether a part may be given by its URL."""
    if quirks.string_only_content:
        return True  # no file is taken, whatever holds it
    if isinstance(part, Audio):
        return quirks.audio_urls or quirks.audio_formats == frozenset()  # refused all the same
    if _is_image(part):
        return quirks.image_urls or part.url.startswith("data:")
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or "text/plain"
    return quirks.file_urls if quirks.files else not kind.startswith("text/")


def write_media(
    part: Image | Audio | Document | File, quirks: Quirks, *, provider: str, told: dict[str, Any]
) -> dict[str, Any]:
    """The part of the content.

    told:   what the part's metadata holds for the vendor
    raises: Unsupported for what the vendor does not take
    """
    if isinstance(part, Audio):
        return {"type": "input_audio", "input_audio": _audio(part, quirks, provider)}
    if _is_image(part):
        detail = {"detail": told["detail"]} if told.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": _image_url(part, quirks, provider), **detail}}
    return _document(part, quirks, provider, told.get("file_id"))


def _is_image(part: Image | Audio | Document | File) -> bool:
    return isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/"))


def _image_url(part: Image | Audio | Document | File, quirks: Quirks, provider: str) -> str:
    if part.data:
        return data_uri(part.data, part.media_type or "image/png")
    if quirks.image_urls or part.url.startswith("data:"):
        return part.url
    raise Unsupported(f"{provider} takes images as bytes only. Pass data and media_type.")


def _audio(part: Audio, quirks: Quirks, provider: str) -> dict[str, Any]:
    allowed = quirks.audio_formats
    if allowed == frozenset():
        raise Unsupported(f"{provider} takes no audio. Send a transcript instead.")
    if not part.data and not quirks.audio_urls:
        raise Unsupported(f"{provider} takes audio as bytes only. Pass data and media_type.")
    kind = part.media_type.lower()
    name = _AUDIO_FORMATS.get(kind, kind.rpartition("/")[2])
    if not part.data:
        return {"data": part.url, "format": name}
    if allowed is not None and name not in allowed:
        raise Unsupported(
            f"{provider} takes no audio of type {part.media_type!r}, only {', '.join(sorted(allowed))}."
        )
    data = base64.b64encode(part.data).decode()
    return {"data": f"data:;base64,{data}" if quirks.audio_urls else data, "format": name}


def _document(
    part: Image | Document | File, quirks: Quirks, provider: str, file_id: object
) -> dict[str, Any]:
    name = getattr(part, "filename", "")
    kind = part.media_type or "application/pdf"
    if file_id:
        return {"type": "file", "file": {"file_id": file_id}}
    if part.data and kind.startswith("text/"):
        return {"type": "text", "text": part.data.decode("utf-8", "replace")}
    if not quirks.files:
        raise Unsupported(f"{provider} takes no files of type {kind!r}. Send the text, or pages as images.")
    if not part.data and not quirks.file_urls:
        raise Unsupported(f"{provider} takes documents as bytes only. Pass data and media_type.")
    data = data_uri(part.data, kind) if part.data else part.url
    name = name or f"document{mimetypes.guess_extension(kind) or ''}"
    return {"type": "file", "file": {"filename": name, "file_data": data}}
