"""The events of ConverseStream as typed values, generous in all that may vary.

On the wire an event's name stands in a header of its message and its members in the payload;
`frames.py` joins both to one JSON object, `{"contentBlockDelta": {...}}`, which is read here.
source: Amazon Bedrock API reference, ConverseStreamOutput
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "WireBlock",
    "WireDelta",
    "WireEvent",
    "WireReasoning",
    "WireStop",
    "WireToolInput",
    "decode_event",
]


class WireReasoning(msgspec.Struct, gc=False, rename="camel"):
    """What a reasoning block grows by: one of the three."""

    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class WireToolInput(msgspec.Struct, gc=False):
    """A fragment of a call's input: JSON text; a whole value where a gateway parsed it."""

    input: Any = None


class WireDelta(msgspec.Struct, gc=False, rename="camel"):
    """What a block grows by: one of these."""

    text: str | None = None
    reasoning_content: WireReasoning | None = None
    tool_use: WireToolInput | None = None
    tool_result: Any = None
    citation: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class WireBlock(msgspec.Struct, gc=False, rename="camel"):
    """The start, growth or end of a block."""

    content_block_index: int | str | None = None
    start: dict[str, Any] | None = None
    delta: WireDelta | None = None


class WireStop(msgspec.Struct, gc=False, rename="camel"):
    """The end of the message."""

    stop_reason: str | None = None
    additional_model_response_fields: Any = None


class WireEvent(msgspec.Struct, gc=False, rename="camel"):
    """Any event of the stream: one of these members; events of other names have none."""

    content_block_delta: WireBlock | None = None
    content_block_start: WireBlock | None = None
    content_block_stop: WireBlock | None = None
    message_stop: WireStop | None = None
    metadata: dict[str, Any] | None = None


decode_event = msgspec.json.Decoder(WireEvent)
