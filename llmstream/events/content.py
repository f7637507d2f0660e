"""What stands beside text: sources, files, and parts only one vendor knows."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from llmstream.events.base import BaseEvent, Metadata

__all__ = ["Custom", "File", "ReasoningFile", "Source"]

if TYPE_CHECKING:
    FileData: TypeAlias = bytes | str
else:
    FileData = Any  # msgspec has no union of bytes and str; __post_init__ tells them apart


class Source(BaseEvent, frozen=True, tag="source"):
    """A web page or document that the answer rests on."""

    source_type: Literal["url", "document"]
    id: str
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    provider_metadata: Metadata | None = None


def _as_bytes(event: File | ReasoningFile) -> None:
    """Base64 text becomes bytes; a URL, which always holds a colon, stays text."""
    if isinstance(event.data, str) and ":" not in event.data:
        try:
            data = base64.b64decode(event.data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"file data is neither a URL nor base64: {error}") from None
        msgspec.structs.force_setattr(event, "data", data)


class File(BaseEvent, frozen=True, tag="file"):
    """A file the model made. `data` is bytes (base64 in JSON) or a URL."""

    media_type: str
    data: FileData
    provider_metadata: Metadata | None = None

    def __post_init__(self) -> None:
        _as_bytes(self)


class ReasoningFile(BaseEvent, frozen=True, tag="reasoning-file"):
    """A file the model made while it reasoned, such as a draft of an image."""

    media_type: str
    data: FileData
    provider_metadata: Metadata | None = None

    def __post_init__(self) -> None:
        _as_bytes(self)


class Custom(BaseEvent, frozen=True, tag="custom"):
    """A part that only one vendor knows; `kind` is `provider.type`, the rest is in the metadata."""

    kind: str
    provider_metadata: Metadata | None = None
