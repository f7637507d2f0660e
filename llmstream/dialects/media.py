"""Media: Google's inline data and file URLs, media types, data URLs, base64 in pieces."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from typing import Final

import msgspec

from llmstream.chats.content import Audio, Document, File, Image, part_kind, sniffed_type
from llmstream.errors import Unsupported

__all__ = [
    "Base64Pieces",
    "Media",
    "audio_type",
    "base64_bytes",
    "data_uri",
    "image_type",
    "is_at_google",
    "media_of",
    "part_of_media",
    "read_data_uri",
    "sampled_type",
    "sampling_of",
    "without_sampling",
]


_NUMBER: Final = re.compile(r"[0-9]{1,9}")

# Recordings without a header: a player needs the rate and the channels.
_BARE_SAMPLES: Final = frozenset({"audio/l16", "audio/l24", "audio/pcm", "audio/alaw", "audio/mulaw"})

_WEB_ALPHABET: Final = str.maketrans("-_", "+/")
_YOUTUBE: Final = re.compile(r"https?://((www|m)\.)?(youtube\.com|youtu\.be)/", re.IGNORECASE)
_FILES_API: Final = re.compile(r"https://generativelanguage\.googleapis\.com/[^/]+/files/", re.IGNORECASE)


class Media(msgspec.Struct, frozen=True):
    """Content of a part: `data`, or `url` if Google fetches it. An unknown media type is ""."""

    media_type: str
    data: bytes | None = None
    url: str | None = None


def media_of(part: Image | Audio | Document | File, *, fetches_urls: bool, provider: str) -> Media:
    """Returns the bytes of a part, or the URL if the vendor fetches it.

    fetches_urls: any web URL is supported; else only the vendor's files and YouTube
    raises:       Unsupported for other URLs, and for bytes of an unknown type
    """
    media_type = part.media_type.partition(";")[0].strip().lower()
    if part.url.startswith("data:"):
        head, _, text = part.url[5:].partition(",")
        try:
            data = base64_bytes(text)
        except ValueError:
            raise Unsupported(f"the data URL of {_name(part)} is not base64", provider=provider) from None
        return _inline(part, media_type or head.partition(";")[0], data, provider)
    if part.data:
        return _inline(part, media_type, part.data, provider)
    if not part.url:
        raise Unsupported(f"{_name(part)} has neither bytes nor a URL", provider=provider)
    if _YOUTUBE.match(part.url):
        return Media(media_type or "video/mp4", url=part.url)
    web = part.url.startswith(("http://", "https://"))
    if not is_at_google(part.url) and not (web and fetches_urls):
        raise Unsupported(
            f"{_name(part)} at {part.url!r} cannot be fetched by this model. Download it and pass its bytes, "
            "or upload it to Google and pass the URL of the file.",
            provider=provider,
        )
    guess = mimetypes.guess_type(part.url.partition("?")[0])[0]
    return Media(media_type or guess or "", url=part.url)


def is_at_google(url: str) -> bool:
    """Whether every model can read the URL: the vendor's files, and YouTube.

    Other URLs are fetched by newer models only, not inside function results, and not if the site's
    robots.txt excludes Google.
    """
    return url.startswith("gs://") or bool(_FILES_API.match(url) or _YOUTUBE.match(url))


def base64_bytes(text: str) -> bytes:
    """Decodes base64, in either alphabet and with or without padding.

    raises: ValueError if it is not base64
    """
    text = "".join(text.split()).rstrip("=").translate(_WEB_ALPHABET)
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def sampled_type(media_type: str, rate: object, channels: object) -> str:
    """Adds rate and channels to the media type of headerless samples, as in RFC 2586 and 3551.

    Other media types, and parameters that are already present, are not changed.
    """
    if media_type.partition(";")[0].strip().lower() not in _BARE_SAMPLES:
        return media_type
    for name, value in (("rate", rate), ("channels", channels)):
        if _is_count(value) and f"{name}=" not in media_type.lower():
            media_type = f"{media_type};{name}={value}"
    return media_type


def sampling_of(media_type: str) -> dict[str, int]:
    """Reverse of `sampled_type`: `sample_rate` and `channels` from the parameters of a media type."""
    head, *parameters = (piece.strip().lower() for piece in media_type.split(";"))
    if head not in _BARE_SAMPLES:
        return {}
    given = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
    names = {"rate": "sample_rate", "channels": "channels"}
    return {ours: int(given[name]) for name, ours in names.items() if _NUMBER.fullmatch(given.get(name, ""))}


def without_sampling(media_type: str) -> str:
    """Removes the parameters that `sampling_of` reads from a media type."""
    return media_type.partition(";")[0].strip() if sampling_of(media_type) else media_type


def part_of_media(media_type: str, *, data: bytes = b"", url: str = "") -> Image | Audio | Document:
    """Reverse of `media_of`: returns the part that holds such media."""
    if media_type.startswith("image/"):
        return Image(url, data, media_type)
    if media_type.startswith("audio/"):
        return Audio(url, data, media_type)
    return Document(url, data, media_type)


def _inline(part: Image | Audio | Document | File, media_type: str, data: bytes, provider: str) -> Media:
    media_type = media_type or sniffed_type(data)
    if not media_type and isinstance(part, Document):
        media_type = mimetypes.guess_type(part.filename)[0] or ""
    if not media_type:
        raise Unsupported(f"the media type of {_name(part)} is unknown. Set media_type.", provider=provider)
    return Media("image/jpeg" if media_type == "image/jpg" else media_type, data=data)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _name(part: Image | Audio | Document | File) -> str:
    if isinstance(part, Document) and part.filename:
        return f"the document {part.filename!r}"
    return f"a part of kind {part_kind(part)!r}"


def image_type(data: bytes, otherwise: str = "image/png") -> str:
    """Returns the media type of an image."""
    found = sniffed_type(data)
    return found if found.startswith("image/") else otherwise


def audio_type(data: bytes) -> str:
    """Returns the media type of a recording; streamed audio without a header is 16 bit samples."""
    if data[:4] == b"RIFF":
        return "audio/wav"
    if data[:3] == b"ID3" or data[:2] in (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"):
        return "audio/mpeg"
    return {b"fLaC": "audio/flac", b"OggS": "audio/ogg"}.get(data[:4], "audio/pcm")


# Data URLs: `data:image/png;base64,...`, written and read.


def data_uri(data: bytes, media_type: str) -> str:
    """Returns the data URL of a file."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def read_data_uri(url: str) -> tuple[str, bytes] | None:
    """Returns media type ("" if missing) and content; None if it is not a data URL.

    raises: ValueError if the content is not base64
    """
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    try:
        return head.partition(";")[0], base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(f"a data URL is not base64: {error}") from None


# Base64 in pieces, decoded as they come, so that a file is held once.


class Base64Pieces:
    """Decodes pieces of base64. Vendors encode each piece separately, or cut one text anywhere."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._rest = ""
        self._error: ValueError | None = None

    def __bool__(self) -> bool:
        return self.size > 0 or self._error is not None

    @property
    def size(self) -> int:
        """Memory of the decoded pieces, in bytes."""
        return len(self._data) + len(self._rest)

    def add(self, piece: str) -> None:
        """Decodes a piece. After a piece that is not base64, `joined` raises."""
        if self._error is not None:
            return
        text = self._rest + piece if self._rest else piece
        end = len(text) - len(text) % 4
        try:
            self._data += base64.b64decode(text[:end], validate=True)
        except ValueError as error:
            self._error = error
        self._rest = text[end:]

    def joined(self) -> bytes:
        """Returns the decoded file.

        raises: ValueError if a piece was not base64
        """
        if self._error is not None:
            raise self._error
        return bytes(self._data) + base64.b64decode(self._rest, validate=True)
