"""Events to JSON and back."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from llmstream.errors import DecodeError
from llmstream.events.types import (
    Custom,
    ErrorEvent,
    File,
    Finish,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    ResponseMetadata,
    RetryNotice,
    Source,
    StepFinish,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
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
    | ErrorEvent
    | Raw
    | StepStart
    | StepFinish
    | RetryNotice
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] | None = None


def encode(event: Event) -> bytes:
    """One event as JSON, camelCase, defaults left out."""
    return _encoder.encode(event)


def decode(data: bytes | str) -> Event:
    """The event that JSON describes.

    Written by Vercel's SDK it may be freer: an `error` of any value, and a warning of an unsupported tool
    that holds the tool itself.

    raises: DecodeError where it is no JSON or no event; unknown keys are ignored
    """
    global _decoder
    if _decoder is None:  # built at first use: it costs more than the rest of the import
        _decoder = msgspec.json.Decoder(Event)
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        found = _of_freer_form(data)
        if found is None:
            raise DecodeError(f"not an event: {error}") from None
        return found


def _of_freer_form(data: bytes | str) -> Event | None:
    """An event whose error or warnings are in the form that Vercel's SDK gives them; None of any other."""
    try:
        value = msgspec.json.decode(data)
        if not isinstance(value, dict):
            return None
        if value.get("type") == "error" and "error" in value:
            value = {**value, "error": _error_of(value["error"])}
        elif value.get("type") == "stream-start" and isinstance(value.get("warnings"), list):
            value = {**value, "warnings": [_warning_of(warning) for warning in value["warnings"]]}
        else:
            return None
        event: Event = msgspec.convert(value, Event)
        return event
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _error_of(value: object) -> dict[str, object]:
    """An `ErrorInfo` of any value: of a text itself, of an object its message."""
    said = value.get("message") if isinstance(value, dict) else value
    text = said if isinstance(said, str) else msgspec.json.encode(value).decode()
    info: dict[str, object] = {"code": "error", "message": text, "retryable": False}
    if isinstance(value, dict):
        info |= {"retryable": value.get("isRetryable") is True, "details": value}
        if isinstance(value.get("statusCode"), int):
            info["status"] = value["statusCode"]
    return info


def _warning_of(value: object) -> object:
    """A warning whose tool is its name, or the id of one that the vendor runs."""
    tool = value.get("tool") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(tool, dict):
        return value
    return {**value, "tool": str(tool.get("name") or tool.get("id") or tool.get("type"))}
