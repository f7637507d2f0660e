"""What a content block of an answer is: its kind, what it gathers, and what it rests on."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Final, Literal, TypeAlias

from llmstream.dialects.json_text import is_json
from llmstream.events import File, FinishReason, Metadata, Source, ToolCall

__all__ = [
    "FINISH_REASONS",
    "KEY",
    "SERVER_TOOL",
    "BlockKind",
    "OpenBlock",
    "source_of_citation",
]

KEY: Final = "bedrock"
"""The key of all metadata of this dialect."""

SERVER_TOOL: Final = "server_tool_use"
"""The type of calls that the vendor runs itself."""

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "guardrail_intervened": "content-filter",
    "content_filtered": "content-filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}

BlockKind: TypeAlias = Literal["text", "reasoning", "tool", "result", "image"]


@dataclasses.dataclass(slots=True)
class OpenBlock:
    """A block between its first word and its stop.

    wire:      what `contentBlockStart` said of it
    parts:     fragments of a tool's input
    size:      what it has gathered, in characters
    pieces:    of a result, as the wire has them
    data:      bytes of an image in base64, piece by piece; or of redacted reasoning
    url:       where an image lies instead
    owner:     the account whose bucket that is
    signatures: of reasoning, piece by piece; `signed` is their length
    citations: of a text
    held:      what it has gathered, in bytes of memory
    """

    kind: BlockKind
    id: str
    wire: dict[str, Any] = dataclasses.field(default_factory=dict)
    parts: list[str] = dataclasses.field(default_factory=list)
    size: int = 0
    pieces: list[Any] = dataclasses.field(default_factory=list)
    data: list[str] = dataclasses.field(default_factory=list)
    url: str = ""
    owner: Any = None
    signatures: list[str] = dataclasses.field(default_factory=list)
    signed: int = 0
    held: int = 0
    citations: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def sign(self, piece: str) -> bool:
        """Takes a piece of the signature; False where it repeats all of it."""
        if len(piece) == self.signed and piece == "".join(self.signatures):
            return False
        self.signatures.append(piece)
        self.signed += len(piece)
        return True

    @property
    def by_vendor(self) -> bool:
        """Whether the vendor runs this call itself."""
        return self.wire.get("type") == SERVER_TOOL

    @property
    def tool_name(self) -> str:
        """The name of the tool that is called."""
        name = self.wire.get("name")
        return name if isinstance(name, str) else ""

    @property
    def call_metadata(self) -> Metadata | None:
        """What a call's start says beyond id and name."""
        rest = {key: value for key, value in self.wire.items() if key not in ("toolUseId", "name")}
        return {KEY: rest} if rest else None

    @property
    def end_metadata(self) -> Metadata | None:
        """What the vendor wants back of a text or of reasoning."""
        told: dict[str, Any] = {}
        if self.citations:
            told["citations"] = self.citations
        if self.signatures:
            told["signature"] = "".join(self.signatures)
        if self.data:
            told["redacted_data"] = _joined_base64(self.data)
        return {KEY: told} if told else None

    @property
    def call(self) -> ToolCall:
        """The call that a tool's block is, once it is whole."""
        text = "".join(self.parts) or "{}"
        return ToolCall(
            self.tool_name,
            text,
            self.id,
            provider_executed=self.by_vendor,
            invalid=not self.tool_name or not is_json(text),
            provider_metadata=self.call_metadata,
        )

    @property
    def file(self) -> File | None:
        """The image that a block is; None where nothing of it came.

        raises: ValueError for bytes that are no base64
        """
        media_type = f"image/{self.wire.get('format') or 'png'}"
        if self.url:
            owned = None if self.owner is None else {KEY: {"bucket_owner": self.owner}}
            return File(media_type, self.url, owned)
        if not self.data:
            return None
        return File(media_type, base64.b64decode(_joined_base64(self.data), validate=True))


def _joined_base64(pieces: list[str]) -> str:
    """The base64 of what the pieces hold together; one piece stays as it is."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:
        return "".join(pieces)


def source_of_citation(citation: dict[str, Any], source_id: str) -> Source:
    """A page or document that the text cites; the metadata is the citation itself."""
    location = citation.get("location")
    web = location.get("web") if isinstance(location, dict) else None
    url = _text(web.get("url")) if isinstance(web, dict) else None
    origin, title = _text(citation.get("source")), _text(citation.get("title"))
    if url is None and origin is not None and "://" in origin:
        url = origin
    metadata = {KEY: citation}
    if url is not None:
        return Source("url", source_id, url, title, provider_metadata=metadata)
    return Source("document", source_id, title=title or origin, provider_metadata=metadata)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
