"""The one union of events that every provider's stream becomes.

Read `base.py` first. The field one matches on comes first, so `case TextDelta(text)` and
`case ToolCall(name, args)` work positionally. `encode` and `decode` are exact inverses.
"""

from llmstream.errors import ErrorInfo
from llmstream.events.base import BaseEvent, Metadata
from llmstream.events.blocks import (
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from llmstream.events.codec import Event, decode, encode
from llmstream.events.content import Custom, File, ReasoningFile, Source
from llmstream.events.response import (
    ErrorEvent,
    Finish,
    FinishReason,
    OtherWarning,
    Raw,
    ResponseMetadata,
    StreamStart,
    UnsupportedSetting,
    UnsupportedTool,
    Warning,
)
from llmstream.events.steps import RetryNotice, StepFinish, StepStart, Timings
from llmstream.events.tools import (
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
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
