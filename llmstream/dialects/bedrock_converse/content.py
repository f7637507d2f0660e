"""Content blocks: media, tool results, and the reasoning fields of each model family."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from typing import Any, Final

import msgspec

from llmstream.chats.content import Audio, Document, File, Image, ToolResult
from llmstream.dialects.bedrock_converse.quirks import Traits
from llmstream.dialects.bedrock_converse.wire import KEY
from llmstream.dialects.history_parts import result_text
from llmstream.dialects.media import image_type, read_data_uri
from llmstream.errors import Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.model_rules.claude import CLAUDE, encode_thinking, fitting_cap
from llmstream.request import Request

__all__ = [
    "DocumentNames",
    "ReasoningPlan",
    "accepts_url",
    "encode_media",
    "encode_reasoning",
    "encode_result",
    "read_media",
    "read_result",
]


Media = Image | Document | Audio

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"

# Block and format by media type. source: ImageBlock, DocumentBlock, VideoBlock in the API reference
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

_MEDIA_TYPES: Final = {found: media_type for media_type, found in reversed(_FORMATS.items())}
_EXTENSION: Final = re.compile(
    r"\.(pdf|csv|docx?|xlsx?|html?|txt|text|md|markdown|json|xml|ya?ml)$", re.IGNORECASE
)
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9\s\-()\[\]]+")
# source: Bedrock, API reference, DocumentBlock: 1 to 200 characters
_MAX_NAME_CHARS: Final = 200


class DocumentNames:
    """Gives documents valid names that are unique in a request."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def copy(self) -> DocumentNames:
        """The same names, to which others may be added."""
        made = DocumentNames()
        made._taken, made._numbers = self._taken.copy(), self._numbers.copy()
        return made

    def take(self, filename: str) -> str:
        """Returns a unique name, derived from the file's."""
        plain = " ".join(_NO_NAME.sub("-", _EXTENSION.sub("", filename)).split())[:_MAX_NAME_CHARS].rstrip()
        plain = name = plain if plain.strip("- ") else "document"
        stem = plain[: _MAX_NAME_CHARS - 8].rstrip()
        while name in self._taken:
            number = self._numbers[stem] = self._numbers.get(stem, 1) + 1
            name = f"{stem} ({number})"
        self._taken.add(name)
        return name


def accepts_url(part: Media | File) -> bool:
    """Whether a part can be sent as a URL: buckets and data URLs."""
    if isinstance(part, File):
        # Left out, with or without its bytes.
        return True
    inline = part.url.startswith("data:") and part.url.partition(",")[0].endswith(";base64")
    return inline or part.url.startswith("s3://")


def encode_media(part: Media, names: DocumentNames, *, provider: str) -> dict[str, Any]:
    """Returns the block of a part, with citations, context and bucket owner from its metadata.

    raises: Unsupported for media types and URLs that the API does not support
    """
    extra = dict((part.metadata or {}).get(KEY, {}))
    claude = (part.metadata or {}).get("anthropic", {})
    block, form, data = _read(part, provider)
    inner: dict[str, Any] = {"format": form}
    if block == "document":
        inner["name"] = names.take(getattr(part, "filename", ""))
        inner |= {key: claude[key] for key in ("context", "citations") if key in claude}
        inner |= {key: extra[key] for key in ("context", "citations") if key in extra}
    if data is None:
        owner = extra.get("bucket_owner")
        location = {"uri": part.url} if owner is None else {"uri": part.url, "bucketOwner": owner}
        inner["source"] = {"s3Location": location}
    elif extra.get("text_source"):
        inner["source"] = {"text": data.decode("utf-8", "replace")}
    else:
        inner["source"] = {"bytes": base64.b64encode(data).decode()}
    return {block: inner}


def read_media(block: str, inner: dict[str, Any]) -> Media | None:
    """Returns the part of a block; None for sources and formats that parts cannot hold."""
    media_type = _MEDIA_TYPES.get((block, str(inner.get("format", "txt"))))
    if media_type is None:
        return None
    extra = {key: inner[key] for key in ("context", "citations") if inner.get(key) is not None}
    fields: dict[str, Any] = {"media_type": media_type}
    match inner.get("source"):
        case {"bytes": str(text)}:
            try:
                fields["data"] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
        case {"text": str(text)}:
            fields["data"] = text.encode("utf-8", "replace")
            extra["text_source"] = True
        case {"s3Location": {"uri": str(uri), **rest}}:
            fields["url"] = uri
            if rest.get("bucketOwner") is not None:
                extra["bucket_owner"] = rest["bucketOwner"]
        case _:
            return None
    fields["metadata"] = {KEY: extra} if extra else None
    if block == "image":
        return Image(**fields)
    if block == "audio":
        return Audio(**fields)
    name = inner.get("name")
    return Document(**fields, filename=name if isinstance(name, str) else "")


def _read(part: Media, provider: str) -> tuple[str, str, bytes | None]:
    """Returns block, format and bytes; None for bytes in a bucket."""
    media_type, data = part.media_type, part.data or None
    try:
        inline = read_data_uri(part.url)
    except ValueError as error:
        raise Unsupported(f"{_name(part)}: {error}", provider=provider) from None
    if inline is not None:
        media_type, data = inline[0] or media_type, inline[1]
    elif data is None and not part.url:
        raise Unsupported(f"{_name(part)} has neither bytes nor a URL", provider=provider)
    elif data is None and not part.url.startswith("s3://"):
        raise Unsupported(
            f"{_name(part)}: Converse supports bytes and s3:// URLs, no other URLs. "
            "Download it and pass its bytes.",
            provider=provider,
        )
    media_type = media_type.split(";")[0].strip().lower() or _guessed(part, data)
    found = _FORMATS.get(media_type)
    if found is None and media_type.startswith("text/"):
        found = ("document", "txt")
    if found is None:
        raise Unsupported(
            f"{_name(part)} of media type {media_type or 'unknown'!r} cannot be sent: Converse takes images "
            "(PNG, JPEG, GIF, WebP), documents (PDF, Office, HTML, Markdown, CSV, text), video and audio. "
            "Convert it, or set media_type.",
            provider=provider,
        )
    return found[0], found[1], data


def _guessed(part: Media, data: bytes | None) -> str:
    """Guesses the media type by the first bytes, else by the name."""
    if data is not None and data.startswith(b"%PDF-"):
        return "application/pdf"
    seen = "" if data is None else image_type(data, "")
    return seen or mimetypes.guess_type(getattr(part, "filename", "") or part.url)[0] or ""


def _name(part: Media) -> str:
    if isinstance(part, Document):
        return f"the document {part.filename!r}"
    return "an image" if isinstance(part, Image) else "a recording"


# Tool results: the content of a `toolResult`.

# Replaces a blank text, which the API rejects.
_EMPTY: Final = "(no output)"


def encode_result(part: ToolResult, names: DocumentNames, *, provider: str) -> list[dict[str, Any]]:
    """Returns the content of a result: its text, or its JSON if it was read as JSON, then its media.

    raises: Unsupported for recordings, and as `encode_media`
    """
    extra = (part.metadata or {}).get(KEY, {})
    if isinstance(extra.get("content"), list):
        return list(extra["content"])
    pieces: list[dict[str, Any]] = []
    if extra.get("json"):
        pieces.append({"json": msgspec.Raw(part.content.encode())})
    elif result_text(part).strip():
        pieces.append({"text": result_text(part)})
    for media in part.parts:
        if isinstance(media, Audio):
            raise Unsupported(
                "tool results do not support audio here. Send a transcript instead.", provider=provider
            )
        pieces.append(encode_media(media, names, provider=provider))
    return pieces or [{"text": _EMPTY}]


def read_result(content: list[dict[str, Any]]) -> tuple[str, tuple[Media, ...], dict[str, Any]]:
    """Returns text, media, and metadata from which `encode_result` writes the same content."""
    text: str | None = None
    extra: dict[str, Any] = {}
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
        extra = {"json": True} if kind == "json" else {}
        text = plain if text is None else f"{text}\n{plain}"
    if not simple:
        extra = {"content": content}
    return text or "", tuple(media), extra


# Reasoning, in the fields of each model family.

_NOVA_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium"}
_OPENAI_EFFORTS: Final = {"none": "low", "minimal": "low", "low": "low", "medium": "medium"}


class ReasoningPlan(msgspec.Struct, frozen=True):
    """Fields of a request for reasoning and length.

    max_tokens: `inferenceConfig.maxTokens`, or None
    fields:     for `additionalModelRequestFields`
    effort:     `outputConfig.effort`, or None
    alone:      sampling settings and length cannot be set
    """

    max_tokens: int | None = None
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    effort: str | None = None
    alone: bool = False


def encode_reasoning(request: Request, can: Traits, warnings: list[Warning]) -> ReasoningPlan:
    """Fits effort or budget to what the model supports.

    raises: InvalidRequest if the requested length is too small for the budget
    """
    wanted, cap = request.reasoning, request.settings.max_output_tokens
    claude = CLAUDE.find(request.model)
    if can.reasoning == "claude":
        cap = fitting_cap(cap, claude, warnings)
    if wanted is None or (wanted.effort is None and wanted.budget_tokens is None):
        return ReasoningPlan(cap)
    if can.reasoning == "claude":
        plan = encode_thinking(wanted, cap, claude.default_tokens, claude, warnings)
        fields = {} if plan.thinking is None else {"thinking": plan.thinking}
        return ReasoningPlan(cap, fields, plan.effort)
    if can.reasoning is None:
        if wanted.effort != "none":
            warnings.append(UnsupportedSetting("reasoning", "this model does not support the setting here"))
        return ReasoningPlan(cap)
    if wanted.budget_tokens is not None:
        details = "this model chooses its budget itself; give an effort instead"
        warnings.append(UnsupportedSetting("reasoning.budget_tokens", details))
    effort = wanted.effort or "medium"
    if can.reasoning == "openai":
        level = _OPENAI_EFFORTS.get(effort, "high")
        if level != effort:
            why = "always reasons" if effort == "none" else "does not support it"
            warnings.append(OtherWarning(f"the effort {effort} became {level}: this model {why}"))
        return ReasoningPlan(cap, {"reasoning_effort": level})
    if effort == "none":
        return ReasoningPlan(cap, {"reasoningConfig": {"type": "disabled"}})
    level = _NOVA_EFFORTS.get(effort, "high")
    if level != effort:
        warnings.append(OtherWarning(f"the effort {effort} became {level}: this model does not support it"))
    config = {"type": "enabled", "maxReasoningEffort": level}
    return ReasoningPlan(cap, {"reasoningConfig": config}, alone=level == "high")
