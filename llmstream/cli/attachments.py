"""Reads attachments (`-a FILE`) and detects what kind of message part they are."""

from __future__ import annotations

import mimetypes
import os
from typing import Final
from urllib.parse import urlsplit

from llmstream.chats import Audio, Document, Image, Part, Text
from llmstream.errors import InvalidRequest

__all__ = ["attached"]

# Upper limit of all vendors for one request: Gemini 20 MB, OpenAI and Anthropic 32 to 50 MB.
_MAX_BYTES: Final = 50_000_000

# First bytes of a file to its media type; they outrank the file name.
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def attached(file: str) -> Part:
    """Returns a file or an http(s) URL as a part of a message.

    Images, audio and PDFs become parts of their kind; a text file becomes text below its name.
    raises: InvalidRequest if it is unreadable, too large, empty, or of an unsupported kind
    """
    if file.startswith(("https://", "http://")):
        return _address(file)
    data = _read(file)
    name = os.path.basename(file)
    kind = _kind(data, name)
    if kind.startswith("image/"):
        return Image(data=data, media_type=kind)
    if kind.startswith("audio/"):
        return Audio(data=data, media_type=kind)
    if kind == "application/pdf":
        return Document(data=data, media_type=kind, filename=name)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    # Valid UTF-8, but no text file has one.
    if "\0" in text:
        raise InvalidRequest(
            f"cannot attach {file}: not an image, audio, a PDF or UTF-8 text. Convert it first."
        )
    return Text(f"{name}:\n\n{text}")


def _address(url: str) -> Part:
    path = urlsplit(url).path
    kind = mimetypes.guess_type(path)[0] or ""
    if kind.startswith("image/"):
        return Image(url=url, media_type=kind)
    if kind.startswith("audio/"):
        return Audio(url=url, media_type=kind)
    return Document(url=url, media_type=kind, filename=os.path.basename(path))


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as source:
            # One byte more detects a longer file; a device may have no end.
            data = source.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"cannot attach {file}: {error.strerror or error}. Check the path.") from None
    if len(data) > _MAX_BYTES:
        raise InvalidRequest(f"cannot attach {file}: it is larger than {_MAX_BYTES // 1_000_000} MB.")
    if not data:
        raise InvalidRequest(f"cannot attach {file}: the file is empty.")
    return data


def _kind(data: bytes, name: str) -> str:
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    found = next((kind for sign, kind in _SIGNATURES if data.startswith(sign)), "")
    guessed = mimetypes.guess_type(name)[0] or ""
    # MP3 without tags, and others, have no signature; for images and PDFs the bytes decide.
    return found or (guessed if guessed.startswith("audio/") else "")
