"""Images and documents as content blocks, and back."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from typing import Any, Final

from llmstream.chats.content import Audio, Document, File, Image, Metadata
from llmstream.dialects.anthropic.blocks import KEY
from llmstream.dialects.anthropic.quirks import Quirks
from llmstream.errors import Unsupported

__all__ = ["accepts_url", "encode_media", "read_media"]

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_TEXTS: Final = ("text/", "application/json", "application/xml", "application/yaml")


def accepts_url(part: Image | Audio | Document | File, *, quirks: Quirks) -> bool:
    """Whether a part may be given by its URL; a document that is text has to be given as text."""
    if not isinstance(part, (Image, Document)):
        return True  # audio is refused and files are left out, whatever holds them
    if part.url[:5].lower() == "data:":
        return part.url.startswith("data:") and part.url.partition(",")[0].endswith(";base64")
    if not quirks.url_sources:
        return False
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or ""
    return isinstance(part, Image) or not kind.startswith(_TEXTS)


def encode_media(part: Image | Document, *, provider: str, quirks: Quirks) -> dict[str, Any]:
    """The block of an image or document, with what its metadata adds (title, context, citations ...).

    raises: Unsupported for media types and sources that the server does not take
    """
    told = dict((part.metadata or {}).get(KEY, {}))
    file_id = told.pop("file_id", None)
    kind = "image" if isinstance(part, Image) else "document"
    block: dict[str, Any] = {"type": kind, "source": _source(part, file_id, provider, quirks)}
    if isinstance(part, Document) and part.filename:
        block["title"] = part.filename
    return {**block, **told}


def read_media(block: dict[str, Any]) -> Image | Document | None:
    """The part that a block describes; None for sources that our parts do not know."""
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    told = {k: v for k, v in block.items() if k not in ("type", "source", "title")}
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
            told["file_id"] = file_id
        case _:
            return None
    metadata: Metadata | None = {KEY: told} if told else None
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
        raise Unsupported(f"{_name(part)} holds neither bytes nor a URL", provider=provider)
    if not quirks.url_sources:
        raise Unsupported(
            f"{_name(part)}: this server takes no URLs and file ids. Fetch it and pass its bytes.",
            provider=provider,
        )
    return {"type": "file", "file_id": file_id} if file_id else {"type": "url", "url": part.url}


def _inline(part: Image | Document, media_type: str, data: bytes, provider: str) -> dict[str, Any]:
    media_type = media_type.split(";")[0].strip().lower() or _sniffed(data)
    if media_type == "image/jpg":
        media_type = "image/jpeg"
    image = media_type.startswith("image/")
    if isinstance(part, Document) and media_type.startswith(_TEXTS):
        return {"type": "text", "media_type": "text/plain", "data": data.decode("utf-8", "replace")}
    if image != isinstance(part, Image) or not (image or media_type == "application/pdf"):
        raise Unsupported(
            f"{_name(part)} of media type {media_type or 'unknown'!r} cannot be sent: the API takes images "
            "(JPEG, PNG, GIF, WebP), PDF and plain text. Convert it, or set media_type.",
            provider=provider,
        )
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def _data_url(url: str, provider: str) -> tuple[str, bytes]:
    head, _, data = url.partition(",")
    try:
        return head[5:].removesuffix(";base64"), base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Unsupported("a data URL is not base64", provider=provider) from None


def _sniffed(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


def _name(part: Image | Document) -> str:
    return "an image" if isinstance(part, Image) else f"the document {part.filename!r}"
