"""Images, recordings and documents as parts of this wire's content, and back."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any

from llmstream.chats.content import Audio, Document, File, Image, Metadata, Part
from llmstream.dialects.data_uris import data_uri, read_data_uri
from llmstream.dialects.media_type import audio_type
from llmstream.dialects.mistral.finish import KEY

__all__ = ["accepts_url", "decode_media", "encode_media", "own"]


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
