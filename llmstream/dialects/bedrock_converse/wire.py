"""Events of ConverseStream as typed values, tolerant where servers differ.

On the wire a message has the event's name in a header and its members in the payload. `converse_frames`
joins both to one JSON object, `{"contentBlockDelta": {...}}`.
source: Amazon Bedrock API reference, ConverseStreamOutput
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.aws import AWSFrames
from llmstream.dialects.wire_values import token_count
from llmstream.events import FinishReason, Source, Usage
from llmstream.framing.aws_event_stream import HeaderValue, encode_message

__all__ = [
    "FINISH_METADATA",
    "FINISH_REASONS",
    "KEY",
    "SERVER_TOOL",
    "WireDelta",
    "WireEvent",
    "WireReasoning",
    "WireStop",
    "converse_frames",
    "decode_event",
    "decode_plain_event",
    "event_frame",
    "read_usage",
    "source_of_citation",
    "write_usage",
]


class WireReasoning(msgspec.Struct, gc=False, rename="camel"):
    """A delta of reasoning: one of the three."""

    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class WireToolInput(msgspec.Struct, gc=False):
    """A fragment of a call's input: JSON text, or a complete value from gateways that parse it."""

    input: Any = None


class WireDelta(msgspec.Struct, gc=False, rename="camel"):
    """A delta of a block: one of these."""

    text: str | None = None
    reasoning_content: WireReasoning | None = None
    tool_use: WireToolInput | None = None
    tool_result: Any = None
    citation: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class WireBlock(msgspec.Struct, gc=False, rename="camel"):
    """Start, delta or end of a block."""

    content_block_index: int | str | None = None
    start: dict[str, Any] | None = None
    delta: WireDelta | None = None


class WireStop(msgspec.Struct, gc=False, rename="camel"):
    """The end of the message."""

    stop_reason: str | None = None
    additional_model_response_fields: Any = None


class WireEvent(msgspec.Struct, gc=False, rename="camel"):
    """Any event of the stream: one of these members; unknown events have none."""

    content_block_delta: WireBlock | None = None
    content_block_start: WireBlock | None = None
    content_block_stop: WireBlock | None = None
    message_stop: WireStop | None = None
    metadata: dict[str, Any] | None = None


class PlainToolInput(msgspec.Struct, frozen=True, gc=False):
    """A fragment of a call's input."""

    input: str


class PlainDelta(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """A piece of text, or of an input."""

    text: str | None = None
    tool_use: PlainToolInput | None = None


class PlainBlock(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The delta of a block."""

    content_block_index: int
    delta: PlainDelta


class PlainEvent(msgspec.Struct, gc=False, rename="camel"):
    """A piece of text or of an input, as nearly all events are. Any other has no block here.

    An error would cost a call as much as two of its pieces.
    """

    content_block_delta: PlainBlock = PlainBlock(-1, PlainDelta())


decode_event = msgspec.json.Decoder(WireEvent)
decode_plain_event = msgspec.json.Decoder(PlainEvent)


# Token counts, read and written.
#
# On the wire `inputTokens` excludes tokens read from or written to the cache; `totalTokens` includes them.
# Reasoning tokens are not counted separately.
# source: Amazon Bedrock API reference, TokenUsage


def read_usage(raw: dict[str, Any]) -> Usage:
    """Converts the vendor's usage object."""
    uncached, made = token_count(raw.get("inputTokens")), token_count(raw.get("outputTokens"))
    read = _cached(raw, "cacheReadInputTokens", "cacheReadInputTokenCount")
    written = _cached(raw, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
    given = None if uncached is None else uncached + (read or 0) + (written or 0)
    total = token_count(raw.get("totalTokens"))
    if total is None and given is not None and made is not None:
        total = given + made
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=total,
        cached_input_tokens=read,
        cache_write_tokens=written,
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Converts counts to the vendor's usage object; the vendor's own object is returned unchanged."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    read, written = usage.cached_input_tokens, usage.cache_write_tokens
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    raw: dict[str, Any] = {
        "inputTokens": max(0, given - (read or 0) - (written or 0)),
        "outputTokens": made,
        "totalTokens": given + made if usage.total_tokens is None else usage.total_tokens,
    }
    if read is not None:
        raw["cacheReadInputTokens"] = read
    if written is not None:
        raw["cacheWriteInputTokens"] = written
    return raw


def _cached(raw: dict[str, Any], name: str, former_name: str) -> int | None:
    count = token_count(raw.get(name))
    return token_count(raw.get(former_name)) if count is None else count


# Framing: AWS messages with the event's name in a header.


def converse_frames(*, provider: str, max_bytes: int) -> AWSFrames:
    """The framing of this wire; each payload is one JSON object, `{EVENT: MEMBERS}`."""
    return AWSFrames(_naming, provider=provider, max_bytes=max_bytes)


def event_frame(name: str, members: dict[str, Any]) -> bytes:
    """Encodes one event as a message; the reverse of `converse_frames`."""
    return encode_message(
        {":event-type": name, ":content-type": "application/json", ":message-type": "event"},
        msgspec.json.encode(members),
    )


def _naming(headers: Mapping[str, HeaderValue]) -> Callable[[bytes], bytes]:
    """Joins name and members; the payload of a message without a name may have the name itself."""
    name = headers.get(":event-type")
    if not isinstance(name, str):
        return bytes
    opening = b"{%b:" % msgspec.json.encode(name)
    return lambda members: b"".join((opening, members or b"{}", b"}"))


# Names of the vendor, and sources.

# Key of this dialect's metadata.
KEY: Final = "bedrock"

# Type of calls that the vendor runs.
SERVER_TOOL: Final = "server_tool_use"

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

# Further fields of the `metadata` event: name on the wire to name in the metadata of finish.
FINISH_METADATA: Final = {
    "metrics": "metrics",
    "trace": "trace",
    "performanceConfig": "performance_config",
    "serviceTier": "service_tier",
}


def source_of_citation(citation: dict[str, Any], source_id: str) -> Source:
    """Returns the source of a citation, with the citation as metadata."""
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
