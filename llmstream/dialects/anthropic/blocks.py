"""What a content block of an answer is: its kind, what it carries on, and what it rests on."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal, TypeAlias

from llmstream.events import FinishReason, Metadata, Source

__all__ = [
    "FINISH_REASONS",
    "KEY",
    "TOOL_USES",
    "BlockKind",
    "OpenBlock",
    "block_kind",
    "source_of_citation",
    "source_of_hit",
]

KEY: Final = "anthropic"
"""The key of all metadata of this dialect, whoever serves it."""

TOOL_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
    "pause_turn": "other",
    "compaction": "other",
}

BlockKind: TypeAlias = Literal["text", "reasoning", "tool", "result", "custom"]

_MEDIA_TYPES: Final = {"char_location": "text/plain", "page_location": "application/pdf"}


@dataclasses.dataclass(slots=True)
class OpenBlock:
    """A block between its start and its stop.

    wire:    the block as `content_block_start` gave it, with what deltas added to a custom one
    parts:   fragments of a tool's input
    size:    their length in characters
    thought: tokens of reasoning whose text is left out, as far as the vendor has estimated them
    grown:   what deltas added to the texts of a custom block, by field
    held:    what deltas brought, in bytes of memory
    """

    kind: BlockKind
    id: str
    wire: dict[str, Any]
    parts: list[str] = dataclasses.field(default_factory=list)
    size: int = 0
    signature: str = ""
    thought: int = 0
    citations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    grown: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    held: int = 0

    @property
    def type(self) -> str:
        """Its type on the wire."""
        return str(self.wire.get("type"))

    @property
    def whole(self) -> dict[str, Any]:
        """A custom block with all that deltas added."""
        grown = {name: "".join([str(self.wire[name]), *pieces]) for name, pieces in self.grown.items()}
        return {**self.wire, **grown}

    @property
    def is_client_call(self) -> bool:
        """Whether the caller has to run it."""
        return self.type == "tool_use"

    @property
    def tool_name(self) -> str:
        """The name of the tool that is called."""
        name = self.wire.get("name")
        return name if isinstance(name, str) else ""

    @property
    def reasoning_metadata(self) -> Metadata | None:
        """What reasoning says at its end: the signature to echo, and how much there was of it."""
        told: dict[str, Any] = {}
        if self.signature:
            told["signature"] = self.signature
        if self.thought:
            told["estimated_tokens"] = self.thought
        return {KEY: told} if told else None

    @property
    def metadata(self) -> Metadata | None:
        """What a tool's block says beyond id, name and input; a vendor's call also says its type."""
        own = ("type", "id", "name", "input") if self.is_client_call else ("id", "name", "input")
        rest = {key: value for key, value in self.wire.items() if key not in own}
        return {KEY: rest} if rest else None


def block_kind(block_type: str) -> BlockKind:
    """What kind of events a block becomes."""
    if block_type == "text":
        return "text"
    if block_type in ("thinking", "redacted_thinking"):
        return "reasoning"
    if block_type in TOOL_USES:
        return "tool"
    return "result" if block_type.endswith("_tool_result") else "custom"


def source_of_hit(hit: Any, source_id: str) -> Source | None:
    """A page that a web search found."""
    if not isinstance(hit, dict) or not isinstance(hit.get("url"), str):
        return None
    told = {key: hit[key] for key in ("type", "page_age") if hit.get(key) is not None}
    return Source("url", source_id, hit["url"], _text(hit.get("title")), provider_metadata={KEY: told})


def source_of_citation(citation: dict[str, Any], source_id: str) -> Source:
    """A page or document that the text cites; the metadata is the citation itself."""
    title = _text(citation.get("title")) or _text(citation.get("document_title"))
    url = _text(citation.get("url")) or _text(citation.get("source"))
    metadata = {KEY: citation}
    if url is not None and ("url" in citation or "://" in url):
        return Source("url", source_id, url, title, provider_metadata=metadata)
    media_type = _MEDIA_TYPES.get(str(citation.get("type")))
    return Source(
        "document", source_id, title=title or url, media_type=media_type, provider_metadata=metadata
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
