"""One typed union of events from every language model's stream.

    import llmstream as ls

    async with ls.stream("anthropic:claude-sonnet-4-5", "Why is the sky blue?") as stream:
        async for event in stream:
            match event:
                case ls.TextDelta(text):
                    print(text, end="")

Everything public is named in `__all__` and loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmstream import (
        agent,
        chats,
        errors,
        events,
        framing,
        grammar,
        log,
        mcp,
        middleware,
        partial_json,
        prices,
        telemetry,
        testing,
        web,
    )
    from llmstream.accumulate import Accumulator
    from llmstream.agent import Agent, AgentRun, Approve, Deny, Hooks, Journal, StepPlan, Suspension
    from llmstream.batches import Batch, BatchProgress, submit
    from llmstream.chats import Audio, Chat, Document, Image, Message, Role
    from llmstream.dialects.base import StreamLimits
    from llmstream.errors import (
        AuthenticationError,
        BadRequest,
        CallerError,
        ConnectionFailed,
        ConnectionLost,
        ContentFiltered,
        ContextTooLong,
        DeadlineExceeded,
        DecodeError,
        Fenced,
        IncompleteStream,
        InvalidOutput,
        InvalidRequest,
        InvalidToolInput,
        LimitExceeded,
        LimitsUnavailable,
        LLMStreamError,
        LogError,
        LogLost,
        LogUnavailable,
        MissingKey,
        NotAStream,
        NotFound,
        Overloaded,
        PermissionDenied,
        ProducerLost,
        ProtocolError,
        ProviderError,
        ProxyError,
        RateLimited,
        RedirectRefused,
        ReplayTooLong,
        RunExists,
        RunNotFound,
        RunSuspended,
        ServerError,
        Stopped,
        StreamError,
        TLSError,
        ToolError,
        ToolTimeout,
        TransportError,
        UnknownTool,
        Unsupported,
    )
    from llmstream.events import (
        Custom,
        ErrorEvent,
        ErrorInfo,
        Event,
        File,
        Finish,
        FinishReason,
        Raw,
        ReasoningDelta,
        ReasoningEnd,
        ReasoningFile,
        ReasoningStart,
        ResponseMetadata,
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
        Usage,
    )
    from llmstream.inspector import inspect
    from llmstream.log import open_logs
    from llmstream.mapping import MapProgress, MapResult, MapRun, map
    from llmstream.providers.base import Provider
    from llmstream.request import (
        NamedTool,
        ProviderTool,
        ReasoningOptions,
        Request,
        Settings,
        ToolSpec,
    )
    from llmstream.streams import EventStream, Model, ResumeToken, stream
    from llmstream.streams.attempts import Retry
    from llmstream.streams.call import ResponseInfo
    from llmstream.streams.lookups import Capabilities, ModelCheck, TokenCount
    from llmstream.streams.observations import (
        AttemptFailed,
        AttemptStarted,
        CallFinished,
        FirstContent,
        Observation,
    )
    from llmstream.structured import Output
    from llmstream.tools import Tool, ToolCallStatus, ToolContext, ToolOutput, tool
    from llmstream.transport.deadlines import Deadlines
    from llmstream.transport.download import DownloadLimits
    from llmstream.transport.limiter import RateLimiter
    from llmstream.warming import warm_up

__version__ = "0.1.0"

_MODULES: dict[str, tuple[str, ...]] = {
    "llmstream.events": (
        "Custom",
        "ErrorEvent",
        "ErrorInfo",
        "Event",
        "File",
        "Finish",
        "FinishReason",
        "Raw",
        "ReasoningDelta",
        "ReasoningEnd",
        "ReasoningFile",
        "ReasoningStart",
        "ResponseMetadata",
        "Source",
        "StepFinish",
        "StepStart",
        "StreamStart",
        "TextDelta",
        "TextEnd",
        "TextStart",
        "ToolApprovalRequest",
        "ToolCall",
        "ToolInputDelta",
        "ToolInputEnd",
        "ToolInputStart",
        "ToolResult",
        "Usage",
    ),
    "llmstream.errors": (
        "AuthenticationError",
        "BadRequest",
        "ConnectionFailed",
        "ConnectionLost",
        "ContentFiltered",
        "ContextTooLong",
        "DeadlineExceeded",
        "DecodeError",
        "Fenced",
        "IncompleteStream",
        "InvalidOutput",
        "InvalidRequest",
        "InvalidToolInput",
        "LLMStreamError",
        "LimitExceeded",
        "LimitsUnavailable",
        "LogError",
        "LogLost",
        "LogUnavailable",
        "MissingKey",
        "NotAStream",
        "NotFound",
        "Overloaded",
        "PermissionDenied",
        "ProducerLost",
        "ProtocolError",
        "ProviderError",
        "ProxyError",
        "RateLimited",
        "RedirectRefused",
        "CallerError",
        "ReplayTooLong",
        "RunExists",
        "RunNotFound",
        "RunSuspended",
        "ServerError",
        "Stopped",
        "StreamError",
        "TLSError",
        "ToolError",
        "ToolTimeout",
        "TransportError",
        "UnknownTool",
        "Unsupported",
    ),
    "llmstream.request": (
        "NamedTool",
        "ProviderTool",
        "ReasoningOptions",
        "Request",
        "Settings",
        "ToolSpec",
    ),
    "llmstream.chats": ("Audio", "Chat", "Document", "Image", "Message", "Role"),
    "llmstream.dialects.base": ("StreamLimits",),
    "llmstream.transport.deadlines": ("Deadlines",),
    "llmstream.transport.download": ("DownloadLimits",),
    "llmstream.transport.limiter": ("RateLimiter",),
    "llmstream.streams.attempts": ("Retry",),
    "llmstream.accumulate": ("Accumulator",),
    "llmstream.tools": ("Tool", "ToolCallStatus", "ToolContext", "ToolOutput", "tool"),
    "llmstream.streams": ("EventStream", "Model", "ResumeToken", "stream"),
    "llmstream.streams.call": ("ResponseInfo",),
    "llmstream.warming": ("warm_up",),
    "llmstream.streams.lookups": ("Capabilities", "ModelCheck", "TokenCount"),
    "llmstream.streams.observations": (
        "AttemptFailed",
        "AttemptStarted",
        "CallFinished",
        "FirstContent",
        "Observation",
    ),
    "llmstream.structured": ("Output",),
    "llmstream.agent": ("Agent", "AgentRun", "Approve", "Deny", "Hooks", "Journal", "StepPlan", "Suspension"),
    "llmstream.mapping": ("MapProgress", "MapResult", "MapRun", "map"),
    "llmstream.batches": ("Batch", "BatchProgress", "submit"),
    "llmstream.inspector": ("inspect",),
    "llmstream.log": ("open_logs",),
    "llmstream.providers.base": ("Provider",),
}
_SUBMODULES = (
    "agent",
    "chats",
    "errors",
    "events",
    "framing",
    "grammar",
    "log",
    "mcp",
    "middleware",
    "partial_json",
    "prices",
    "serve",
    "telemetry",
    "testing",
    "web",
)
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Accumulator",
    "Agent",
    "AgentRun",
    "Approve",
    "AttemptFailed",
    "AttemptStarted",
    "Audio",
    "AuthenticationError",
    "BadRequest",
    "Batch",
    "BatchProgress",
    "CallFinished",
    "CallerError",
    "Capabilities",
    "Chat",
    "ConnectionFailed",
    "ConnectionLost",
    "ContentFiltered",
    "ContextTooLong",
    "Custom",
    "DeadlineExceeded",
    "Deadlines",
    "DecodeError",
    "Deny",
    "Document",
    "DownloadLimits",
    "ErrorEvent",
    "ErrorInfo",
    "Event",
    "EventStream",
    "Fenced",
    "File",
    "Finish",
    "FinishReason",
    "FirstContent",
    "Hooks",
    "Image",
    "IncompleteStream",
    "InvalidOutput",
    "InvalidRequest",
    "InvalidToolInput",
    "Journal",
    "LLMStreamError",
    "LimitExceeded",
    "LimitsUnavailable",
    "LogError",
    "LogLost",
    "LogUnavailable",
    "MapProgress",
    "MapResult",
    "MapRun",
    "Message",
    "MissingKey",
    "Model",
    "ModelCheck",
    "NamedTool",
    "NotAStream",
    "NotFound",
    "Observation",
    "Output",
    "Overloaded",
    "PermissionDenied",
    "ProducerLost",
    "ProtocolError",
    "Provider",
    "ProviderError",
    "ProviderTool",
    "ProxyError",
    "RateLimited",
    "RateLimiter",
    "Raw",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningFile",
    "ReasoningOptions",
    "ReasoningStart",
    "RedirectRefused",
    "ReplayTooLong",
    "Request",
    "ResponseInfo",
    "ResponseMetadata",
    "ResumeToken",
    "Retry",
    "Role",
    "RunExists",
    "RunNotFound",
    "RunSuspended",
    "ServerError",
    "Settings",
    "Source",
    "StepFinish",
    "StepPlan",
    "StepStart",
    "Stopped",
    "StreamError",
    "StreamLimits",
    "StreamStart",
    "Suspension",
    "TLSError",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "TokenCount",
    "Tool",
    "ToolApprovalRequest",
    "ToolCall",
    "ToolCallStatus",
    "ToolContext",
    "ToolError",
    "ToolInputDelta",
    "ToolInputEnd",
    "ToolInputStart",
    "ToolOutput",
    "ToolResult",
    "ToolSpec",
    "ToolTimeout",
    "TransportError",
    "UnknownTool",
    "Unsupported",
    "Usage",
    "agent",
    "chats",
    "errors",
    "events",
    "framing",
    "grammar",
    "inspect",
    "log",
    "map",
    "mcp",
    "middleware",
    "open_logs",
    "partial_json",
    "prices",
    "serve",
    "stream",
    "submit",
    "telemetry",
    "testing",
    "tool",
    "warm_up",
    "web",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"llmstream.{name}")
    try:
        module = importlib.import_module(_HOME[name])
    except KeyError:
        raise AttributeError(f"module 'llmstream' has no attribute {name!r}{_hint(name)}") from None
    value = getattr(module, name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """A hint for a name of another SDK or a misspelt name; "" for any other."""
    if name.startswith("_"):
        return ""
    import difflib  # imported only for a misspelt name

    from llmstream.other_sdks import PACKAGE

    if name in PACKAGE:
        return f". {PACKAGE[name]}"

    # Of `Agent` and the module `agent`, the later one is suggested: that with the same case as the name.
    ranked = sorted(__all__, key=lambda ours: ours[0].isupper() == name[0].isupper())
    ours_by_lower = {ours.lower(): ours for ours in ranked}
    close = difflib.get_close_matches(name.lower(), ours_by_lower, n=1, cutoff=0.8)
    return f". Did you mean {ours_by_lower[close[0]]}?" if close else ""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
