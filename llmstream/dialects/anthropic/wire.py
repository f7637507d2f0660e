"""The events of a Messages stream as typed values, generous in all that may vary.

One flat Struct takes every event. A tagged union would decode a delta 0.02 us faster (0.24
against 0.26 us, measured side by side) but refuses every event it has not heard of.
"""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.dialects.surrogates import encodable_value

__all__ = ["WireDelta", "WireEvent", "WireMessage", "decode_event", "encodable", "encodable_value"]


class WireDelta(msgspec.Struct, gc=False, omit_defaults=True):
    """What a `content_block_delta` adds to a block, or a `message_delta` to the message."""

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
    """The message as `message_start` announces it; `content` may hold finished blocks."""

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
    """Any event of the stream, by its `type`; the SSE event name says the same and is not read."""

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


decode_event = msgspec.json.Decoder(WireEvent)


def encodable(wire: WireEvent) -> WireEvent:
    """The same event without halves of characters."""
    return msgspec.convert(encodable_value(msgspec.to_builtins(wire)), WireEvent)
