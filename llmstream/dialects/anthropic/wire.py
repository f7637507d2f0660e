"""Events of a Messages stream as typed values, tolerant where servers differ.

One flat Struct fits every event. A tagged union would decode a delta 0.02 us faster (0.24 against
0.26 us, measured side by side) but rejects every unknown event.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.aws import AWSFrames
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.wire_values import token_count
from llmstream.events import FinishReason, Source, Usage
from llmstream.framing.aws_event_stream import HeaderValue, encode_message

__all__ = [
    "FINISH_REASONS",
    "KEY",
    "TOOL_USES",
    "WireDelta",
    "WireEvent",
    "WireMessage",
    "decode_event",
    "decode_plain_event",
    "encodable",
    "encodable_value",
    "invoke_frame",
    "invoke_frames",
    "read_usage",
    "source_of_citation",
    "source_of_hit",
    "write_usage",
]


class WireDelta(msgspec.Struct, gc=False, omit_defaults=True):
    """The `delta` of a `content_block_delta` or a `message_delta`."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    estimated_tokens: Any = None
    partial_json: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    content: str | None = None
    encrypted_content: str | None = None
    stop_reason: str | None = None
    stop_sequence: Any = None
    stop_details: Any = None
    container: Any = None


class WireMessage(msgspec.Struct, gc=False, omit_defaults=True):
    """The message of `message_start`; `content` may hold complete blocks."""

    id: str | int | None = None
    model: str | None = None
    content: Any = None
    usage: Any = None
    container: Any = None
    stop_reason: str | None = None
    stop_sequence: Any = None
    stop_details: Any = None
    context_management: Any = None
    input_transformations: Any = None
    diagnostics: Any = None


class WireEvent(msgspec.Struct, gc=False, omit_defaults=True):
    """Any event of the stream, by its `type`; the SSE event name is redundant and not read."""

    type: str | None = None
    index: int | str | None = None
    delta: WireDelta | None = None
    content_block: dict[str, Any] | None = None
    message: WireMessage | None = None
    usage: Any = None
    context_management: Any = None
    input_transformations: Any = None
    error: Any = None
    request_id: Any = None


class PlainDelta(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A piece of text, of reasoning or of an input, as `type` states."""

    type: Literal["text_delta", "input_json_delta", "thinking_delta"]
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None


class PlainEvent(msgspec.Struct, gc=False):
    """A `content_block_delta` with such a piece, as nearly all events are, or the end of a block."""

    type: Literal["content_block_delta", "content_block_stop"]
    index: int
    delta: PlainDelta | None = None


decode_event = msgspec.json.Decoder(WireEvent)
decode_plain_event = msgspec.json.Decoder(PlainEvent)


def encodable(wire: WireEvent) -> WireEvent:
    """Replaces lone surrogates in an event."""
    return msgspec.convert(encodable_value(msgspec.to_builtins(wire)), WireEvent)


# Token counts, read and written.
#
# On the wire `input_tokens` excludes tokens read from or written to the cache, and the top level excludes
# the iterations that compacted the conversation.
# source: "Prompt caching", "Compaction" in Anthropic's documents


def read_usage(raw: dict[str, Any]) -> Usage:
    """Converts the vendor's usage object.

    Iterations that compacted the conversation are included, because they are billed. Tokens of an advisor
    model are in `raw` only, because they belong to another model.
    """
    rounds = [raw, *_compactions(raw)]
    uncached = _total(rounds, "input_tokens")
    read = _total(rounds, "cache_read_input_tokens")
    written = _total(rounds, "cache_creation_input_tokens")
    made = _total(rounds, "output_tokens")
    given = None if uncached is None else uncached + (read or 0) + (written or 0)
    details = raw.get("output_tokens_details")
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=given + made if given is not None and made is not None else None,
        reasoning_tokens=token_count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
        cached_input_tokens=read,
        cache_write_tokens=written,
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Converts counts to the vendor's usage object; the vendor's own object is returned unchanged."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    read, written = usage.cached_input_tokens, usage.cache_write_tokens
    raw: dict[str, Any] = {
        "input_tokens": max(0, (usage.input_tokens or 0) - (read or 0) - (written or 0)),
        "output_tokens": usage.output_tokens or 0,
    }
    if written is not None:
        raw["cache_creation_input_tokens"] = written
    if read is not None:
        raw["cache_read_input_tokens"] = read
    if usage.reasoning_tokens is not None:
        raw["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return raw


def _compactions(raw: dict[str, Any]) -> list[dict[str, Any]]:
    rounds = raw.get("iterations")
    if not isinstance(rounds, list):
        return []
    return [r for r in rounds if isinstance(r, dict) and r.get("type") == "compaction"]


def _total(rounds: list[dict[str, Any]], key: str) -> int | None:
    if len(rounds) == 1:  # without a compaction
        return token_count(rounds[0].get(key))
    reported = [n for r in rounds if (n := token_count(r.get(key))) is not None]
    return sum(reported) if reported else None


# Content blocks: their types and sources.

# Key of this dialect's metadata, on every provider.
KEY: Final = "anthropic"

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

_MEDIA_TYPES: Final = {"char_location": "text/plain", "page_location": "application/pdf"}


def source_of_hit(hit: Any, source_id: str) -> Source | None:
    """Returns the source of a web search hit."""
    if not isinstance(hit, dict) or not isinstance(hit.get("url"), str):
        return None
    extra = {key: hit[key] for key in ("type", "page_age") if hit.get(key) is not None}
    return Source("url", source_id, hit["url"], _text(hit.get("title")), provider_metadata={KEY: extra})


def source_of_citation(citation: dict[str, Any], source_id: str) -> Source:
    """Returns the source of a citation, with the citation as metadata."""
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


# Framing of Bedrock's InvokeModel: AWS messages with an event's JSON as base64.

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _Chunk(msgspec.Struct):
    bytes: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


def invoke_frames(*, provider: str, max_bytes: int) -> AWSFrames:
    """The framing of Bedrock's InvokeModel; the payloads equal those of the SSE stream."""
    return AWSFrames(_reading, provider=provider, max_bytes=max_bytes)


def invoke_frame(payload: bytes) -> bytes:
    """Encodes one event as a message; the reverse of `invoke_frames`."""
    body = msgspec.json.encode({"bytes": base64.b64encode(payload).decode()})
    return encode_message(
        {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, body
    )


def _reading(headers: Mapping[str, HeaderValue]) -> Callable[[bytes], bytes]:
    return _payload


def _payload(payload: bytes) -> bytes:
    """Extracts the event; a payload without one is returned unchanged, for the decoder to report."""
    try:
        inner = _decode_chunk(payload).bytes
        return payload if inner is None else base64.b64decode(inner, validate=True)
    except (*_UNREADABLE, binascii.Error):
        return payload
