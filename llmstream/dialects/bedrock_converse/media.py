"""Images, documents, videos and recordings as content blocks, and back."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from typing import Any, Final

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.bedrock_converse.blocks import KEY
from llmstream.dialects.data_uris import read_data_uri
from llmstream.dialects.media_type import image_type
from llmstream.errors import Unsupported

__all__ = ["DocumentNames", "Media", "accepts_url", "encode_media", "read_media"]

Media = Image | Document | Audio

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_FORMATS: Final[dict[str, tuple[str, str]]] = {
    "image/png": ("image", "png"),
    "image/jpeg": ("image", "jpeg"),
    "image/jpg": ("image", "jpeg"),
    "image/gif": ("image", "gif"),
    "image/webp": ("image", "webp"),
    "application/pdf": ("document", "pdf"),
    "text/csv": ("document", "csv"),
    "application/msword": ("document", "doc"),
    f"{_OFFICE}.wordprocessingml.document": ("document", "docx"),
    "application/vnd.ms-excel": ("document", "xls"),
    f"{_OFFICE}.spreadsheetml.sheet": ("document", "xlsx"),
    "text/html": ("document", "html"),
    "text/plain": ("document", "txt"),
    "text/markdown": ("document", "md"),
    "text/x-markdown": ("document", "md"),
    "application/json": ("document", "txt"),
    "application/xml": ("document", "txt"),
    "application/yaml": ("document", "txt"),
    "video/x-matroska": ("video", "mkv"),
    "video/quicktime": ("video", "mov"),
    "video/mp4": ("video", "mp4"),
    "video/webm": ("video", "webm"),
    "video/x-flv": ("video", "flv"),
    "video/mpeg": ("video", "mpeg"),
    "video/mpg": ("video", "mpg"),
    "video/x-ms-wmv": ("video", "wmv"),
    "video/3gpp": ("video", "three_gp"),
    "audio/mpeg": ("audio", "mp3"),
    "audio/mp3": ("audio", "mp3"),
    "audio/opus": ("audio", "opus"),
    "audio/wav": ("audio", "wav"),
    "audio/x-wav": ("audio", "wav"),
    "audio/wave": ("audio", "wav"),
    "audio/aac": ("audio", "aac"),
    "audio/x-aac": ("audio", "x-aac"),
    "audio/flac": ("audio", "flac"),
    "audio/x-flac": ("audio", "flac"),
    "audio/mp4": ("audio", "mp4"),
    "audio/x-m4a": ("audio", "m4a"),
    "audio/ogg": ("audio", "ogg"),
    "audio/x-matroska": ("audio", "mka"),
    "audio/mpga": ("audio", "mpga"),
    "audio/pcm": ("audio", "pcm"),
    "audio/webm": ("audio", "webm"),
}
"""Block and format by media type. source: ImageBlock, DocumentBlock and the like in the API reference"""

_MEDIA_TYPES: Final = {found: media_type for media_type, found in reversed(_FORMATS.items())}
_EXTENSION: Final = re.compile(
    r"\.(pdf|csv|docx?|xlsx?|html?|txt|text|md|markdown|json|xml|ya?ml)$", re.IGNORECASE
)
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9\s\-()\[\]]+")
_MAX_NAME_CHARS: Final = 200


class DocumentNames:
    """Gives documents names that Bedrock takes, each once in a request."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def take(self, filename: str) -> str:
        """A name as near to the file's as can be."""
        plain = " ".join(_NO_NAME.sub("-", _EXTENSION.sub("", filename)).split())[:_MAX_NAME_CHARS].rstrip()
        plain = name = plain if plain.strip("- ") else "document"
        stem = plain[: _MAX_NAME_CHARS - 8].rstrip()
        while name in self._taken:
            number = self._numbers[stem] = self._numbers.get(stem, 1) + 1
            name = f"{stem} ({number})"
        self._taken.add(name)
        return name


def accepts_url(part: Media | File) -> bool:
    """Whether a part may stay a URL: buckets, and URLs that hold the file in base64."""
    if isinstance(part, File):
        return True  # left out, whatever holds it
    inline = part.url.startswith("data:") and part.url.partition(",")[0].endswith(";base64")
    return inline or part.url.startswith("s3://")


def encode_media(part: Media, names: DocumentNames, *, provider: str) -> dict[str, Any]:
    """The block of a part, with what its metadata adds (citations, context, owner of the bucket).

    raises: Unsupported for media types and addresses that the API does not take
    """
    told = dict((part.metadata or {}).get(KEY, {}))
    claude = (part.metadata or {}).get("anthropic", {})
    block, form, data = _read(part, provider)
    inner: dict[str, Any] = {"format": form}
    if block == "document":
        inner["name"] = names.take(getattr(part, "filename", ""))
        inner |= {key: claude[key] for key in ("context", "citations") if key in claude}
        inner |= {key: told[key] for key in ("context", "citations") if key in told}
    if data is None:
        owner = told.get("bucket_owner")
        location = {"uri": part.url} if owner is None else {"uri": part.url, "bucketOwner": owner}
        inner["source"] = {"s3Location": location}
    elif told.get("text_source"):
        inner["source"] = {"text": data.decode("utf-8", "replace")}
    else:
        inner["source"] = {"bytes": base64.b64encode(data).decode()}
    return {block: inner}


def read_media(block: str, inner: dict[str, Any]) -> Media | None:
    """The part that a block describes; None for sources and formats that our parts do not know."""
    media_type = _MEDIA_TYPES.get((block, str(inner.get("format", "txt"))))
    if media_type is None:
        return None
    told = {key: inner[key] for key in ("context", "citations") if inner.get(key) is not None}
    fields: dict[str, Any] = {"media_type": media_type}
    match inner.get("source"):
        case {"bytes": str(text)}:
            try:
                fields["data"] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
        case {"text": str(text)}:
            fields["data"] = text.encode("utf-8", "replace")
            told["text_source"] = True
        case {"s3Location": {"uri": str(uri), **rest}}:
            fields["url"] = uri
            if rest.get("bucketOwner") is not None:
                told["bucket_owner"] = rest["bucketOwner"]
        case _:
            return None
    fields["metadata"] = {KEY: told} if told else None
    if block == "image":
        return Image(**fields)
    if block == "audio":
        return Audio(**fields)
    name = inner.get("name")
    return Document(**fields, filename=name if isinstance(name, str) else "")


def _read(part: Media, provider: str) -> tuple[str, str, bytes | None]:
    """Block, format, and the bytes; None where the part lies in a bucket."""
    media_type, data = part.media_type, part.data or None
    try:
        inline = read_data_uri(part.url)
    except ValueError as error:
        raise Unsupported(f"{_name(part)}: {error}", provider=provider) from None
    if inline is not None:
        media_type, data = inline[0] or media_type, inline[1]
    elif data is None and not part.url:
        raise Unsupported(f"{_name(part)} holds neither bytes nor a URL", provider=provider)
    elif data is None and not part.url.startswith("s3://"):
        raise Unsupported(
            f"{_name(part)}: Converse takes bytes and s3:// addresses, no other URLs. "
            "Fetch it and pass its bytes.",
            provider=provider,
        )
    media_type = media_type.split(";")[0].strip().lower() or _guessed(part, data)
    found = _FORMATS.get(media_type)
    if found is None and media_type.startswith("text/"):
        found = ("document", "txt")
    if found is None:
        raise Unsupported(
            f"{_name(part)} of media type {media_type or 'unknown'!r} cannot be sent: Converse knows images "
            "(PNG, JPEG, GIF, WebP), documents (PDF, Office, HTML, Markdown, CSV, text), video and audio. "
            "Convert it, or set media_type.",
            provider=provider,
        )
    return (*found, data)


def _guessed(part: Media, data: bytes | None) -> str:
    """The media type by the first bytes, else by the name."""
    if data is not None and data.startswith(b"%PDF-"):
        return "application/pdf"
    seen = "" if data is None else image_type(data, "")
    return seen or mimetypes.guess_type(getattr(part, "filename", "") or part.url)[0] or ""


def _name(part: Media) -> str:
    if isinstance(part, Document):
        return f"the document {part.filename!r}"
    return "an image" if isinstance(part, Image) else "a recording"
