"""The one union of events that every provider's stream becomes.

Each event is a frozen msgspec Struct tagged on `type`, and holds values only: `encode` and `decode` are exact
inverses. The field one matches on comes first, so `case TextDelta(text)` and `case ToolCall(name, args)` work
positionally.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from llmstream.errors import DecodeError, ErrorInfo
from llmstream.first_use import make_decoder
from llmstream.other_sdks import EVENT, suggests
from llmstream.usage import Usage

__all__ = [
    "BaseEvent",
    "Custom",
    "ErrorEvent",
    "ErrorInfo",
    "Event",
    "File",
    "Finish",
    "FinishReason",
    "Metadata",
    "OtherWarning",
    "Raw",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningFile",
    "ReasoningStart",
    "ResponseMetadata",
    "RetryNotice",
    "Source",
    "StepFinish",
    "StepStart",
    "StreamStart",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "Timings",
    "ToolApprovalRequest",
    "ToolCall",
    "ToolInputDelta",
    "ToolInputEnd",
    "ToolInputStart",
    "ToolResult",
    "UnsupportedSetting",
    "UnsupportedTool",
    "Usage",
    "Warning",
    "decode",
    "encode",
]

# Shared by all events: frozen, tagged on `type`, camelCase in JSON.

Metadata: TypeAlias = dict[str, dict[str, Any]]
"""What a vendor sent beyond the union or wants back verbatim, keyed by provider."""


@suggests(EVENT)
class BaseEvent(
    msgspec.Struct,
    frozen=True,
    tag_field="type",
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
):
    """Base of the union. Events hold values only: `decode(encode(event)) == event`."""


def merge_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """Both, provider by provider; later keys win. Neither argument is changed."""
    if not new:
        return old
    if not old:
        return new
    merged = dict(old)
    for provider, values in new.items():
        merged[provider] = {**merged.get(provider, {}), **values}
    return merged


# Text and reasoning: blocks that open, take deltas and close under one id.
#
# A delta is only the new fragment; fragments of one id, joined in order, are the block.
# `incomplete` on an end means that the stream was interrupted inside the block.


class TextStart(BaseEvent, frozen=True, tag="text-start"):
    """A block of text opens."""

    id: str
    provider_metadata: Metadata | None = None


# Deltas are not tracked by the garbage collector: there are thousands, and none is part of a cycle.
class TextDelta(BaseEvent, frozen=True, tag="text-delta", gc=False):
    """A fragment of text."""

    delta: str
    id: str
    provider_metadata: Metadata | None = None


class TextEnd(BaseEvent, frozen=True, tag="text-end"):
    """A block of text closes."""

    id: str
    incomplete: bool = False
    provider_metadata: Metadata | None = None


class ReasoningStart(BaseEvent, frozen=True, tag="reasoning-start"):
    """A block of reasoning opens."""

    id: str
    provider_metadata: Metadata | None = None


class ReasoningDelta(BaseEvent, frozen=True, tag="reasoning-delta", gc=False):
    """A fragment of reasoning."""

    delta: str
    id: str
    provider_metadata: Metadata | None = None


class ReasoningEnd(BaseEvent, frozen=True, tag="reasoning-end"):
    """A block of reasoning closes; its metadata holds the signature to echo, if there is one."""

    id: str
    incomplete: bool = False
    provider_metadata: Metadata | None = None


# What stands beside text: sources, files, and parts only one vendor knows.

if TYPE_CHECKING:
    FileData: TypeAlias = bytes | str
else:
    FileData = Any  # msgspec has no union of bytes and str; __post_init__ distinguishes them


class Source(BaseEvent, frozen=True, tag="source"):
    """A web page or document that the answer rests on."""

    source_type: Literal["url", "document"]
    id: str
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    provider_metadata: Metadata | None = None


def _as_bytes(event: File | ReasoningFile) -> None:
    """Base64 text becomes bytes; a URL, which always holds a colon, stays text."""
    if isinstance(event.data, str) and ":" not in event.data:
        try:
            # Without `validate`, Python skips characters that are no base64.
            data = base64.b64decode(event.data, validate=True)
        except binascii.Error as error:
            raise ValueError(f"file data is neither a URL nor base64: {error}") from None
        # The Struct is frozen.
        msgspec.structs.force_setattr(event, "data", data)


class File(BaseEvent, frozen=True, tag="file"):
    """A file the model made. `data` is bytes (base64 in JSON) or a URL."""

    media_type: str
    data: FileData
    provider_metadata: Metadata | None = None

    def __post_init__(self) -> None:
        _as_bytes(self)


class ReasoningFile(BaseEvent, frozen=True, tag="reasoning-file"):
    """A file the model made while it reasoned, such as a draft of an image."""

    media_type: str
    data: FileData
    provider_metadata: Metadata | None = None

    def __post_init__(self) -> None:
        _as_bytes(self)


class Custom(BaseEvent, frozen=True, tag="custom"):
    """A part that only one vendor knows; `kind` is `provider.type`, the rest is in the metadata."""

    kind: str
    provider_metadata: Metadata | None = None


# The frame of a response: its start, its metadata, its end or failure.

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


def warning_text(warning: Warning) -> str:
    """The text of a request warning."""
    match warning:
        case UnsupportedSetting(name, details):
            text = f"the option {name} is not supported as given"
        case UnsupportedTool(name, details):
            text = f"the tool {name} is not supported"
        case _:
            return warning.message
    return f"{text}: {details}" if details else text


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


# Added by the agent loop: steps of a run, and retries.


class Timings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How long things took, in seconds from the step's request."""

    first_event_s: float | None = None
    first_content_s: float | None = None
    total_s: float | None = None


class StepStart(BaseEvent, frozen=True, tag="step-start"):
    """The agent loop sends a request to the model; steps count from 0.

    warnings: warnings about this step's request; those of the first step are also in `stream-start`
    """

    step: int
    warnings: list[Warning] = msgspec.field(default_factory=list)


class StepFinish(BaseEvent, frozen=True, tag="step-finish"):
    """The model's response of one step has ended."""

    step: int
    finish_reason: FinishReason
    usage: Usage = msgspec.field(default_factory=Usage)
    timings: Timings | None = None


class RetryNotice(BaseEvent, frozen=True, tag="retry"):
    """A step is requested again; discard what it has streamed so far."""

    reason: str
    discard_step: int
    attempt: int
    wait_s: float


# Tool calls: their input as it streams, the complete call, results and requests for approval.
#
# `provider_executed` marks calls that the vendor ran itself; `dynamic` tools that were not in
# the request (MCP servers of the vendor, for example). The id of a tool input is the id of the
# call it becomes.


class ToolInputStart(BaseEvent, frozen=True, tag="tool-input-start"):
    """The model begins to write the input of a call."""

    tool_name: str
    id: str
    provider_executed: bool = False
    dynamic: bool = False
    title: str | None = None
    provider_metadata: Metadata | None = None


class ToolInputDelta(BaseEvent, frozen=True, tag="tool-input-delta", gc=False):
    """A fragment of the input's JSON text."""

    delta: str
    id: str
    provider_metadata: Metadata | None = None


DELTAS: Final[frozenset[type]] = frozenset({TextDelta, ReasoningDelta, ToolInputDelta})
"""Types of the events that continue a block, as nearly all events do."""


class ToolInputEnd(BaseEvent, frozen=True, tag="tool-input-end"):
    """The input has ended; `incomplete` if the stream was interrupted inside it."""

    id: str
    incomplete: bool = False
    provider_metadata: Metadata | None = None


class ToolCall(BaseEvent, frozen=True, tag="tool-call"):
    """A complete call. `input` is JSON text, exactly the joined deltas; `{}` where none came.

    invalid: the input is not JSON or the vendor marked the call as broken; do not run it.
    """

    tool_name: str
    input: str
    tool_call_id: str
    provider_executed: bool = False
    dynamic: bool = False
    invalid: bool = False
    provider_metadata: Metadata | None = None


class ToolResult(BaseEvent, frozen=True, tag="tool-result"):
    """The result of a call: any JSON value. `preliminary` results are replaced by later ones."""

    result: Any
    tool_call_id: str
    tool_name: str
    is_error: bool = False
    preliminary: bool = False
    provider_executed: bool = False
    provider_metadata: Metadata | None = None


class ToolApprovalRequest(BaseEvent, frozen=True, tag="tool-approval-request"):
    """A call waits for a person's decision.

    Its metadata has `tool_name` and `input` under "llmstream" if a hook or a repair changed them: the call
    runs with these, not with those of its `tool-call`.
    """

    tool_call_id: str
    approval_id: str
    provider_metadata: Metadata | None = None


NO_CONTENT: Final[frozenset[type]] = frozenset(
    {StreamStart, ResponseMetadata, Raw, TextStart, TextEnd, ReasoningStart, ReasoningEnd, ErrorEvent, Finish}
)
"""Types of the events without content: before any other, another model may still answer."""


# Events to JSON and back.

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

    JSON written by Vercel's SDK may be less strict: an `error` of any value, and a warning of an unsupported
    tool that holds the tool itself.

    raises: DecodeError where it is no JSON or no event; unknown keys are ignored
    """
    global _decoder
    # Built at first use: it costs more than the rest of the import.
    if _decoder is None:
        _decoder = make_decoder(Event)
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
    message = value.get("message") if isinstance(value, dict) else value
    text = message if isinstance(message, str) else msgspec.json.encode(value).decode()
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
