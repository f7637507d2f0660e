"""Events to JSON and back."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from llmstream.errors import DecodeError
from llmstream.events.blocks import (
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.events.content import Custom, File, ReasoningFile, Source
from llmstream.events.response import Error, Finish, Raw, ResponseMetadata, StreamStart
from llmstream.events.steps import Retry, StepFinish, StepStart
from llmstream.events.tools import (
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["Event", "decode", "encode"]

Event: TypeAlias = (
    StreamStart
    | ResponseMetadata
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | ToolCall
    | ToolResult
    | ToolApprovalRequest
    | Source
    | File
    | ReasoningFile
    | Custom
    | Finish
    | Error
    | Raw
    | StepStart
    | StepFinish
    | Retry
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] | None = None


def encode(event: Event) -> bytes:
    """One event as JSON, camelCase, defaults left out."""
    return _encoder.encode(event)


def decode(data: bytes | str) -> Event:
    """The event that JSON describes.

    raises: DecodeError where it is no JSON or no event; unknown keys are ignored
    """
    global _decoder
    if _decoder is None:  # built at first use: it costs more than the rest of the import
        _decoder = msgspec.json.Decoder(Event)
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DecodeError(f"not an event: {error}") from None
