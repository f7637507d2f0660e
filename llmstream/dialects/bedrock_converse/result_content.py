"""What a tool gave, as the content of a `toolResult`, and back."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.content import Audio, ToolResult
from llmstream.dialects.bedrock_converse.blocks import KEY
from llmstream.dialects.bedrock_converse.media import DocumentNames, Media, encode_media, read_media
from llmstream.dialects.result_text import result_text
from llmstream.errors import Unsupported

__all__ = ["encode_result", "read_result"]

_EMPTY: Final = "(no output)"
"""A blank text is refused."""


def encode_result(part: ToolResult, names: DocumentNames, *, provider: str) -> list[dict[str, Any]]:
    """The pieces of a result: its text, or its JSON where it came as such, then its media.

    raises: Unsupported for recordings and what `encode_media` refuses
    """
    told = (part.metadata or {}).get(KEY, {})
    if isinstance(told.get("content"), list):
        return list(told["content"])
    pieces: list[dict[str, Any]] = []
    if told.get("json"):
        pieces.append({"json": msgspec.Raw(part.content.encode())})
    elif result_text(part).strip():
        pieces.append({"text": result_text(part)})
    for media in part.parts:
        if isinstance(media, Audio):
            raise Unsupported("a tool's result takes no audio here. Send a transcript.", provider=provider)
        pieces.append(encode_media(media, names, provider=provider))
    return pieces or [{"text": _EMPTY}]


def read_result(content: list[dict[str, Any]]) -> tuple[str, tuple[Media, ...], dict[str, Any]]:
    """Text, media, and what the metadata has to say so that the same pieces can be written again."""
    text: str | None = None
    told: dict[str, Any] = {}
    media: list[Media] = []
    simple = bool(content)
    for piece in content:
        ((kind, value),) = piece.items()
        part = read_media(kind, value) if kind in ("image", "document", "video") else None
        if part is not None:
            media.append(part)
            continue
        plain = value if kind == "text" else msgspec.json.encode(value).decode()
        simple = simple and text is None and not media and kind in ("text", "json")
        told = {"json": True} if kind == "json" else {}
        text = plain if text is None else f"{text}\n{plain}"
    if not simple:
        told = {"content": content}
    return text or "", tuple(media), told
