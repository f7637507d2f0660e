"""Events of an interaction as typed values, tolerant where servers differ.

An interaction is a list of steps: thoughts, outputs, calls and results. The stream opens each
step, extends it by deltas and closes it. The name of the SSE event equals `event_type`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.dialects.google import Sources
from llmstream.dialects.media import sampled_type
from llmstream.dialects.wire_values import added, token_count
from llmstream.events import File, FinishReason, Metadata, Source, Usage

__all__ = [
    "ALIASES",
    "CONTENT",
    "CONTINUATION",
    "FINISH_REASONS",
    "KEY",
    "OpenStep",
    "Recording",
    "WireEvent",
    "decode_event",
    "decode_plain_event",
    "is_citation",
    "media_of_piece",
    "read_usage",
    "sources_of_annotation",
    "sources_of_result",
    "step_kind",
    "write_usage",
]


# Names of events before May 2026, when steps were called contents.
ALIASES: Final = {
    "interaction.start": "interaction.created",
    "interaction.complete": "interaction.completed",
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}


class WireEvent(msgspec.Struct, gc=False, omit_defaults=True):
    """Any event of the stream.

    step, content: what opens, by its present and its former name
    metadata:      may hold the usage so far
    usage:         so far, where it stands in the event itself
    step_usage:    of the step that ends
    """

    event_type: str | None = None
    index: int | str | None = None
    step: dict[str, Any] | None = None
    content: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    interaction: dict[str, Any] | None = None
    interaction_id: Any = None
    status: str | None = None
    error: Any = None
    metadata: Any = None
    continuation_token: Any = None
    usage: Any = None
    step_usage: Any = None


class PlainDelta(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A piece of text, or of an input, as `type` states."""

    type: Literal["text", "arguments_delta"]
    text: str | None = None
    arguments: str | None = None


class PlainEvent(msgspec.Struct, gc=False):
    """A `step.delta` with such a piece, as nearly all events are; or the end of a step.

    The end has an empty delta: an error would cost a call as much as two of its pieces, and a delta that may
    be missing would be looked at with each piece of text.
    """

    event_type: Literal["step.delta", "step.stop"]
    index: int
    delta: PlainDelta = PlainDelta("text")
    metadata: None = None


decode_event = msgspec.json.Decoder(WireEvent)
decode_plain_event = msgspec.json.Decoder(PlainEvent)


# Token counts of an interaction, in both directions.
#
# On the wire `total_output_tokens` excludes thoughts. What the vendor's tools added to the prompt is
# in `total_tool_use_tokens` and in the total; it stays in `raw`.


def read_usage(raw: dict[str, Any]) -> Usage:
    """Reads the vendor's usage object."""
    thoughts = token_count(raw.get("total_thought_tokens"))
    given = token_count(raw.get("total_input_tokens"))
    made = added(token_count(raw.get("total_output_tokens")), thoughts)
    total = token_count(raw.get("total_tokens"))
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=added(given, made) if total is None and None not in (given, made) else total,
        reasoning_tokens=thoughts,
        cached_input_tokens=token_count(raw.get("total_cached_tokens")),
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Writes the vendor's usage object; one that the vendor itself sent is returned unchanged."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    thoughts = usage.reasoning_tokens
    counts = {
        "total_tokens": usage.total_tokens,
        "total_input_tokens": usage.input_tokens,
        "total_cached_tokens": usage.cached_input_tokens,
        "total_output_tokens": None
        if usage.output_tokens is None
        else max(0, usage.output_tokens - (thoughts or 0)),
        "total_thought_tokens": thoughts,
    }
    return {name: count for name, count in counts.items() if count is not None}


# Steps and their sources.

# The key of all metadata of this dialect, the same as that of generateContent.
KEY: Final = "google"

# Prefix of the types of custom parts that are pieces of an output, not steps.
CONTENT: Final = f"{KEY}.content."

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "completed": "stop",
    "requires_action": "tool-calls",
    "incomplete": "length",
    "requires_continuation": "length",
    "budget_exceeded": "length",
    "failed": "error",
    "cancelled": "other",
}

# The status of an interaction that another one continues.
CONTINUATION: Final = "requires_continuation"

StepKind: TypeAlias = Literal["output", "thought", "call", "vendor-call", "vendor-result", "custom"]


@dataclasses.dataclass(slots=True)
class Recording:
    """Audio that comes in pieces.

    fields: fields of the pieces beside their data; later ones win
    """

    pieces: list[bytes] = dataclasses.field(default_factory=list)
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    def file(self, mime_type: str) -> File:
        """Joins the pieces."""
        media_type, metadata = media_of_piece(self.fields, mime_type, inline=True)
        return File(media_type, b"".join(self.pieces), metadata)


class OpenStep(msgspec.Struct, eq=False):
    """A step between its start and its stop.

    wire:        the step so far: its start, with the fields of its deltas
    id:          of its block or call; "" until there is one
    audio:       recordings, by their type on the wire
    annotations: of its text, as on the wire
    unsourced:   whether any of them is not a citation
    parts, counted, size: of a call's arguments, as in `GrowingInput`
    held:        memory counted for it, in bytes
    """

    kind: StepKind
    wire: dict[str, Any]
    id: str = ""
    parts: list[str] = msgspec.field(default_factory=list)
    counted: int = 0
    size: int = 0
    audio: dict[str, Recording] = msgspec.field(default_factory=dict)
    annotations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    unsourced: bool = False
    held: int = 0

    @property
    def type(self) -> str:
        """Its type on the wire."""
        return str(self.wire.get("type"))

    @property
    def name(self) -> str:
        """Name of the tool; of a vendor's step without one, its type without the ending."""
        name = self.wire.get("name")
        if isinstance(name, str) and name:
            return name
        return "" if self.kind == "call" else self.type.removesuffix("_call").removesuffix("_result")

    @property
    def signature(self) -> Metadata | None:
        """The signature, as metadata."""
        signature = self.wire.get("signature")
        return {KEY: {"signature": signature}} if isinstance(signature, str) and signature else None

    @property
    def end_metadata(self) -> Metadata | None:
        """Metadata of the end of a text or thought: its signature and its annotations."""
        fields = dict((self.signature or {}).get(KEY, {}))
        if self.annotations:
            fields["annotations"] = self.annotations
        return {KEY: fields} if fields else None

    def rest(self, *own: str) -> Metadata:
        """Returns the fields of the step except for our own, as metadata; an empty signature is dropped."""
        fields = {key: value for key, value in self.wire.items() if key not in own}
        if fields.get("signature") == "":
            del fields["signature"]
        return {KEY: fields}


def step_kind(step_type: str) -> StepKind:
    """Returns what kind of events a step becomes."""
    # `text`, `image` and so on were steps before May 2026.
    if step_type in ("model_output", "text", "image", "audio", "video", "document"):
        return "output"
    if step_type == "thought":
        return "thought"
    if step_type == "function_call":
        return "call"
    if step_type.endswith("_call"):
        return "vendor-call"
    return "vendor-result" if step_type.endswith("_result") else "custom"


def media_of_piece(piece: dict[str, Any], usual: str, *, inline: bool) -> tuple[str, Metadata | None]:
    """Returns the media type of a file, and its other metadata.

    usual:  media type of a piece without one
    inline: the piece has bytes; a URI beside them is metadata
    """
    plain = str(piece.get("mime_type") or usual)
    rate = "sample_rate" if piece.get("sample_rate") is not None else "rate"
    media_type = sampled_type(plain, piece.get(rate), piece.get("channels"))
    own = {"type", "data", "mime_type"}
    if media_type != plain:
        own |= {rate, "channels"}
    if not inline:
        own.add("uri")
    fields = {key: value for key, value in piece.items() if key not in own and value is not None}
    return media_type, {KEY: fields} if fields else None


def is_citation(annotation: dict[str, Any]) -> bool:
    """Whether an annotation becomes a source."""
    return annotation.get("type") == "file_citation" or isinstance(annotation.get("url"), str)


def sources_of_annotation(annotation: Any, sources: Sources) -> Iterator[Source]:
    """Yields the page or document that a piece of text cites, with the annotation as metadata."""
    metadata = {KEY: annotation}
    match annotation:
        case {"type": "file_citation"}:
            name = annotation.get("document_uri") or annotation.get("source") or annotation.get("file_name")
            title = annotation.get("file_name")
            yield from sources.document(name or annotation.get("url"), title, metadata)
        case {"url": str(url)}:
            yield from sources.page(url, annotation.get("title") or annotation.get("name"), metadata)


def sources_of_result(step: OpenStep, sources: Sources) -> Iterator[Source]:
    """Yields the pages and documents that one of the vendor's tools found."""
    found = step.wire.get("result")
    for entry in found if isinstance(found, list) else ():
        if not isinstance(entry, dict):
            continue
        if step.type == "url_context_result" and entry.get("status") not in (None, "success"):
            continue
        if step.type == "file_search_result":
            name = entry.get("document_uri") or entry.get("source") or entry.get("file_name")
            yield from sources.document(name, entry.get("title"))
            continue
        yield from sources.page(entry.get("url"), entry.get("title"))
        places = entry.get("places")
        for place in places if isinstance(places, list) else ():
            if isinstance(place, dict):
                yield from sources.page(place.get("url"), place.get("name"))
