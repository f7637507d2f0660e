"""Media types by the first bytes, for data that came without one."""

from __future__ import annotations

from typing import Final

__all__ = ["audio_type", "image_type"]

_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def image_type(data: bytes, otherwise: str = "image/png") -> str:
    """The media type of an image."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _IMAGES if data.startswith(magic)), otherwise)


def audio_type(data: bytes) -> str:
    """The media type of a recording; streamed audio without a head is bare 16 bit samples."""
    if data[:4] == b"RIFF":
        return "audio/wav"
    if data[:3] == b"ID3" or data[:2] in (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"):
        return "audio/mpeg"
    return {b"fLaC": "audio/flac", b"OggS": "audio/ogg"}.get(data[:4], "audio/pcm")
