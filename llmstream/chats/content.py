"""What a message is made of: parts, each with a `kind`.

The kinds below are ours; `register_part` adds others, and an unknown kind is preserved as
`UnknownPart` and written back byte for byte. `metadata` on a part holds, keyed by provider,
what a vendor wants back verbatim (signatures, encrypted reasoning, item ids).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from llmstream.errors import DecodeError, InvalidRequest
from llmstream.first_use import make_decoder

__all__ = [
    "CANCELLED",
    "OWN_KEY",
    "Audio",
    "BasePart",
    "Custom",
    "Document",
    "File",
    "Image",
    "Metadata",
    "Outcome",
    "Part",
    "Reasoning",
    "Source",
    "Text",
    "ToolCall",
    "ToolResult",
    "UIPart",
    "UnknownPart",
    "data_url",
    "decode_part",
    "encode_part",
    "outcome_mark",
    "outcome_of",
    "own_values",
    "part_kind",
    "read_base64",
    "read_data_url",
    "register_part",
    "sniffed_type",
]


Metadata: TypeAlias = dict[str, dict[str, Any]]


Outcome: TypeAlias = Literal["denied", "cancelled"]
"""Why a call has an error result that its tool did not give: a person denied the call, or it was cancelled,
by a stopped run or a crash, before it was done."""

CANCELLED: Final = "The call was cancelled before it was done. It may have had effects."
"""The result of a call that had not ended, as text for the model."""

OWN_KEY: Final = "llmstream"
"""The key of llmstream's own values in the metadata of events, parts and messages. No vendor is sent them."""


def own_values(metadata: object) -> dict[str, Any]:
    """Returns llmstream's own values in metadata; {} without any, or where a page has sent no dict."""
    own = metadata.get(OWN_KEY) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}


def outcome_mark(outcome: Outcome) -> Metadata:
    """Metadata that marks the result of a call, in an event or a part. It is never sent to a vendor."""
    return {OWN_KEY: {"outcome": outcome}}


def outcome_of(metadata: Metadata | None) -> Outcome | None:
    """Returns the mark in the metadata of a result; None for a result that the tool gave."""
    found = own_values(metadata).get("outcome")
    return found if found in ("denied", "cancelled") else None


@runtime_checkable
class Part(Protocol):
    """Anything with a kind. A registered part is a msgspec Struct tagged on `kind`."""

    @property
    def part_kind(self) -> str:
        """The name under which the part is saved."""
        ...


class BasePart(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True):
    """Base of our parts, and of yours: a frozen Struct whose tag is its kind.

    @register_part
    class Video(BasePart, frozen=True, tag="video"): ...
    """

    @property
    def part_kind(self) -> str:
        """The name under which the part is saved."""
        return part_kind(self)


class Text(BasePart, frozen=True, tag="text"):
    """Plain text."""

    text: str
    metadata: Metadata | None = None


class Image(BasePart, frozen=True, tag="image"):
    """An image, by URL or as bytes.

    url:        its address; empty if it is passed as bytes
    data:       its bytes; empty if it is passed by URL
    """

    url: str = ""
    data: bytes = b""
    media_type: str = ""
    metadata: Metadata | None = None


class Audio(BasePart, frozen=True, tag="audio"):
    """A recording, by URL or as bytes.

    url:        its address; empty if it is passed as bytes
    data:       its bytes; empty if it is passed by URL
    """

    url: str = ""
    data: bytes = b""
    media_type: str = ""
    metadata: Metadata | None = None


class Document(BasePart, frozen=True, tag="document"):
    """A file to be read, such as a PDF, by URL or as bytes.

    url:        its address; empty if it is passed as bytes
    data:       its bytes; empty if it is passed by URL
    filename:   its name, for the model
    """

    url: str = ""
    data: bytes = b""
    media_type: str = ""
    filename: str = ""
    metadata: Metadata | None = None


class File(BasePart, frozen=True, tag="file"):
    """A file that the model made.

    url:        its address; empty if it is passed as bytes
    data:       its bytes; empty if it is passed by URL
    """

    media_type: str = ""
    url: str = ""
    data: bytes = b""
    metadata: Metadata | None = None


class Reasoning(BasePart, frozen=True, tag="reasoning"):
    """What the model thought; signatures and encrypted forms are in the metadata."""

    text: str
    metadata: Metadata | None = None


class ToolCall(BasePart, frozen=True, tag="tool_call"):
    """The assistant calls a tool. `arguments` is raw JSON text."""

    id: str
    name: str
    arguments: str = ""
    provider_executed: bool = False
    metadata: Metadata | None = None


class ToolResult(BasePart, frozen=True, tag="tool_result"):
    """What a tool gave.

    content: what the model sees, as text (JSON text for structured results)
    parts:   images and files that belong to the result
    result:  the JSON value itself, where the vendor ran the tool
    """

    tool_call_id: str
    content: str = ""
    is_error: bool = False
    name: str = ""
    parts: tuple[Image | Document | Audio, ...] = ()
    result: Any = None
    provider_executed: bool = False
    metadata: Metadata | None = None


class Source(BasePart, frozen=True, tag="source"):
    """A page or document that an answer rests on."""

    source_type: str
    id: str = ""
    url: str = ""
    title: str = ""
    media_type: str = ""
    filename: str = ""
    metadata: Metadata | None = None


class Custom(BasePart, frozen=True, tag="custom"):
    """A part that only one vendor knows; `type` is `provider.type`, the rest is metadata."""

    type: str
    metadata: Metadata | None = None


class UIPart(BasePart, frozen=True, tag="ui"):
    """A part of a page that is not for the model, as the page has it; see `from_ui`."""

    part: dict[str, Any]


class UnknownPart(msgspec.Struct, frozen=True):
    """A part of an unregistered kind, as it was saved."""

    kind: str
    raw: bytes

    @property
    def part_kind(self) -> str:
        """The kind it was saved under."""
        return self.kind


_PARTS: dict[str, type[Any]] = {}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}
_encoder = msgspec.json.Encoder()


class _Kind(msgspec.Struct):
    kind: str


_kind_decoder = msgspec.json.Decoder(_Kind)


def _has_kind(config: Any) -> bool:
    """Whether a Struct is tagged on `kind`."""
    return config is not None and config.tag_field == "kind" and isinstance(config.tag, str)


def register_part(part_type: type[Any]) -> type[Any]:
    """Make a Struct tagged on `kind` a part of its own; usable as a class decorator.

    raises: InvalidRequest where it is no such Struct or the kind is taken
    """
    config = getattr(part_type, "__struct_config__", None)
    if config is None or not _has_kind(config):
        raise InvalidRequest(
            f'{part_type.__name__} is not a part. Derive it from BasePart with tag="its-kind", '
            'or from msgspec.Struct with tag_field="kind" as well.'
        )
    if _PARTS.get(config.tag, part_type) is not part_type:
        raise InvalidRequest(f"the kind {config.tag!r} is taken by {_PARTS[config.tag].__name__}")
    _PARTS[config.tag] = part_type
    return part_type


for _part in (Text, Image, Audio, Document, File, Reasoning, ToolCall, ToolResult, Source, Custom, UIPart):
    register_part(_part)


def part_kind(part: object) -> str:
    """The kind of any part, ours or another's."""
    if isinstance(part, UnknownPart):
        return part.kind
    config = getattr(type(part), "__struct_config__", None)
    if config is not None and isinstance(config.tag, str):
        return config.tag
    return str(getattr(part, "part_kind", type(part).__name__))


def encode_part(part: object) -> msgspec.Raw:
    """A part as JSON; an unknown one as it was.

    raises: InvalidRequest where it has no kind to be read by, or holds what JSON cannot
    """
    # Byte for byte, so that a newer version finds what it wrote.
    if isinstance(part, UnknownPart):
        return msgspec.Raw(part.raw)
    name = type(part).__name__
    if not _has_kind(getattr(part, "__struct_config__", None)):
        raise InvalidRequest(
            f"a part of type {name} has no kind to be saved under. Derive {name} from BasePart with a tag=."
        )
    try:
        return msgspec.Raw(_encoder.encode(part))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest(
            f"a part of type {name} cannot be written as JSON: {error}. Keep its fields to plain values."
        ) from None


def decode_part(raw: bytes | msgspec.Raw) -> Part:
    """The part that JSON describes.

    raises: DecodeError where it is no JSON object with a kind, or a known kind is defective
    """
    data = bytes(raw)
    try:
        kind = _kind_decoder.decode(data).kind
        part_type = _PARTS.get(kind)
        if part_type is None:
            return UnknownPart(kind, data)
        if kind not in _decoders:
            _decoders[kind] = make_decoder(part_type)
        part: Part = _decoders[kind].decode(data)
        return part
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DecodeError(f"not a message part: {error}") from None


# Media types by the first bytes, for data without one.

_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)


def sniffed_type(data: bytes) -> str:
    """The media type that the first bytes of a file show; "" if they show none."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    return next((name for magic, name in _MAGIC if data.startswith(magic)), "")


# Files within dicts of messages: data URLs, in both directions.


def data_url(data: bytes, media_type: str) -> str:
    """The bytes as a data URL."""
    return f"data:{media_type or 'application/octet-stream'};base64,{base64.b64encode(data).decode()}"


def read_data_url(url: str, where: str) -> tuple[str, bytes]:
    """Media type and bytes of a data URL.

    where:  the place of the file, for the error
    raises: InvalidRequest if it is not base64
    """
    head, _, data = url[5:].partition(",")
    return head.partition(";")[0], read_base64(data, where)


def read_base64(data: str, where: str) -> bytes:
    """The bytes of a base64 text.

    raises: InvalidRequest
    """
    try:
        # Without `validate`, Python skips characters that are no base64, and gives other bytes. ValueError
        # comes with text that is not ASCII.
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{where} is not base64") from None
