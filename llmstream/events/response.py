"""The frame of a response: how it starts, what it is called, how it ends or fails."""

from __future__ import annotations

import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.events.base import BaseEvent, Metadata
from llmstream.usage import Usage

__all__ = [
    "ErrorEvent",
    "Finish",
    "FinishReason",
    "OtherWarning",
    "Raw",
    "ResponseMetadata",
    "StreamStart",
    "UnsupportedSetting",
    "UnsupportedTool",
    "Warning",
]

FinishReason: TypeAlias = Literal[
    "stop", "length", "content-filter", "tool-calls", "error", "other", "unknown"
]
"""Why the model ended. other: a reason of the vendor's own; unknown: it gave none."""


class UnsupportedSetting(
    msgspec.Struct, frozen=True, tag_field="type", tag="unsupported-setting", omit_defaults=True
):
    """A setting the provider does not know; it was left out."""

    setting: str
    details: str | None = None


class UnsupportedTool(
    msgspec.Struct, frozen=True, tag_field="type", tag="unsupported-tool", omit_defaults=True
):
    """A tool the provider cannot take; it was left out."""

    tool: str
    details: str | None = None


class OtherWarning(msgspec.Struct, frozen=True, tag_field="type", tag="other", omit_defaults=True):
    """Anything else that was changed or left out on the way to the vendor."""

    message: str


Warning: TypeAlias = UnsupportedSetting | UnsupportedTool | OtherWarning


class StreamStart(BaseEvent, frozen=True, tag="stream-start", omit_defaults=False):
    """The first event of every stream."""

    warnings: list[Warning] = msgspec.field(default_factory=list)


class ResponseMetadata(BaseEvent, frozen=True, tag="response-metadata"):
    """What the vendor calls this response."""

    model_id: str | None = None
    id: str | None = None
    timestamp: datetime.datetime | None = None
    provider_metadata: Metadata | None = None


class Finish(BaseEvent, frozen=True, tag="finish"):
    """The last event of every stream."""

    finish_reason: FinishReason
    usage: Usage = msgspec.field(default_factory=Usage)
    raw_finish_reason: str | None = None
    provider_metadata: Metadata | None = None


class ErrorEvent(BaseEvent, frozen=True, tag="error"):
    """Something failed. After the finish that follows, iteration raises it."""

    error: ErrorInfo
    provider_metadata: Metadata | None = None


class Raw(BaseEvent, frozen=True, tag="raw"):
    """A wire event as the vendor sent it, parsed; only when `include_raw` asks for it."""

    raw_value: Any
