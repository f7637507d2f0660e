"""Events as the stream that the Messages API would have sent: the reverse of `decoder.py`."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final, Literal

from llmstream.dialects.anthropic.answer_writer import AnswerWriter, WrittenBlock
from llmstream.dialects.anthropic.blocks import FINISH_REASONS, KEY
from llmstream.dialects.anthropic.error_words import error_event, exception_type
from llmstream.dialects.anthropic.usage import write_usage
from llmstream.dialects.aws_exceptions import exception_frame
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    Finish,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["AnthropicEventEncoder", "new_message_id"]

_RAW_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "refusal",
    "other": "end_turn",
}


def new_message_id() -> str:
    """An id such as the vendor gives to an answer."""
    return f"msg_{secrets.token_hex(12)}"


class AnthropicEventEncoder:
    """Writes one answer.

    What the wire has no word for (files, raw events, the loop's own events) becomes nothing.
    After an error nothing more is written, for the vendor closes the stream there.
    """

    def __init__(
        self,
        model: str,
        *,
        framing: Literal["sse", "aws-event-stream"] = "sse",
        new_id: Callable[[], str] = new_message_id,
    ) -> None:
        self._writer = AnswerWriter(model, framing=framing, new_id=new_id)
        self._framing = framing
        self._over = False
        self._open: dict[str, WrittenBlock] = {}
        self._inputs: set[str] = set()
        self._text: WrittenBlock | None = None

    def feed(self, event: Event) -> bytes:
        """The bytes that say this event."""
        if self._over:
            return b""
        match event:
            case ResponseMetadata():
                return self._writer.begin(event.id, event.model_id)
            case TextStart() | ReasoningStart() | ToolInputStart():
                return self._start(event)
            case TextDelta() | ReasoningDelta() | ToolInputDelta():
                return self._delta(event)
            case TextEnd() | ReasoningEnd() | ToolInputEnd():
                return self._end(event)
            case ToolCall():
                return self._call(event)
            case ToolResult():
                return self._result(event)
            case Source():
                return self._cite(event)
            case Custom():
                return self._custom(event)
            case ErrorEvent():
                return self._fail(event.error)
            case Finish():
                return self._finish(event)
        return b""

    def close(self) -> bytes:
        """The end of the body; the wire has no mark beyond `message_stop`."""
        self._over = True
        return b""

    def _start(self, event: TextStart | ReasoningStart | ToolInputStart) -> bytes:
        told = _told(event.provider_metadata)
        block: dict[str, Any]
        if isinstance(event, TextStart):
            block = {"type": "text", "text": ""}
        elif isinstance(event, ToolInputStart):
            self._inputs.add(event.id)
            block = _tool_block(event, event.id)
        elif "redacted_data" in told:
            block = {"type": "redacted_thinking", "data": told["redacted_data"]}
        else:
            block = {"type": "thinking", "thinking": "", "signature": ""}
        written, data = self._writer.open_block(block)
        self._open[event.id] = written
        if isinstance(event, TextStart):
            self._text = written
        return data

    def _delta(self, event: TextDelta | ReasoningDelta | ToolInputDelta) -> bytes:
        written = self._open.get(event.id)
        if written is None:
            return b""
        written.spoken = True
        if isinstance(event, TextDelta):
            delta: dict[str, Any] = {"type": "text_delta", "text": event.delta}
        elif isinstance(event, ReasoningDelta):
            delta = {"type": "thinking_delta", "thinking": event.delta}
            estimate = _told(event.provider_metadata).get("estimated_tokens")
            if isinstance(estimate, int):
                delta["estimated_tokens"] = estimate
                written.thought += estimate
        else:
            delta = {"type": "input_json_delta", "partial_json": event.delta}
        return self._writer.delta(written, delta)

    def _end(self, event: TextEnd | ReasoningEnd | ToolInputEnd) -> bytes:
        written = self._open.pop(event.id, None)
        if written is None or event.incomplete:
            return b""
        told = _told(event.provider_metadata)
        out = b""
        if isinstance(event, TextEnd):
            self._text = None
            for citation in [] if written.cited else told.get("citations") or ():
                out += self._writer.delta(written, {"type": "citations_delta", "citation": citation})
        elif isinstance(event, ReasoningEnd):
            out = self._sign(written, told)
        elif not written.spoken:
            out = self._writer.delta(written, {"type": "input_json_delta", "partial_json": ""})
        return out + self._writer.stop(written)

    def _sign(self, written: WrittenBlock, told: dict[str, Any]) -> bytes:
        """Metadata at the end of reasoning: tokens that no delta has reported, and the signature."""
        out = b""
        estimate = told.get("estimated_tokens")
        if isinstance(estimate, int) and estimate > written.thought:
            rest = {"thinking": "", "estimated_tokens": estimate - written.thought}
            out = self._writer.delta(written, {"type": "thinking_delta", **rest})
        if told.get("signature"):
            out += self._writer.delta(written, {"type": "signature_delta", "signature": told["signature"]})
        return out

    def _call(self, event: ToolCall) -> bytes:
        """A call whose input did not stream is written at once."""
        if event.tool_call_id in self._inputs:
            return b""
        self._inputs.add(event.tool_call_id)
        written, data = self._writer.open_block(_tool_block(event, event.tool_call_id))
        delta = {"type": "input_json_delta", "partial_json": event.input}
        return data + self._writer.delta(written, delta) + self._writer.stop(written)

    def _result(self, event: ToolResult) -> bytes:
        """Results of the vendor's tools are blocks; others are the next request's."""
        if not event.provider_executed or event.preliminary:
            return b""
        block = {"type": f"{event.tool_name}_tool_result", **_told(event.provider_metadata)}
        block |= {"tool_use_id": event.tool_call_id, "content": event.result}
        told_inside = isinstance(event.result, dict) and str(event.result.get("type")).endswith("_error")
        if block["type"] == "mcp_tool_result" or (event.is_error and not told_inside):
            block["is_error"] = event.is_error
        return self._writer.whole(block)

    def _cite(self, event: Source) -> bytes:
        """Citations stand in the text they belong to; hits of a search are told by its result."""
        citation = _told(event.provider_metadata)
        if self._text is None or not str(citation.get("type")).endswith("_location"):
            return b""
        self._text.cited = True
        return self._writer.delta(self._text, {"type": "citations_delta", "citation": citation})

    def _custom(self, event: Custom) -> bytes:
        if not event.kind.startswith(f"{KEY}."):
            return b""
        block = {"type": event.kind.removeprefix(f"{KEY}."), **_told(event.provider_metadata)}
        if block["type"] != "compaction" or not isinstance(block.get("content"), str):
            return self._writer.whole(block)
        written, data = self._writer.open_block({**block, "content": None})
        delta = {"type": "compaction_delta", "content": block["content"]}
        return data + self._writer.delta(written, delta) + self._writer.stop(written)

    def _fail(self, info: ErrorInfo) -> bytes:
        self._over = True
        if self._framing == "sse":
            return self._writer.write(error_event(info))
        return exception_frame(exception_type(info), info.message)

    def _finish(self, event: Finish) -> bytes:
        if event.finish_reason == "error":
            return self._fail(ErrorInfo("server-error", "the answer ended in an error", retryable=True))
        told = _told(event.provider_metadata)
        delta = {"stop_reason": _raw_reason(event), "stop_sequence": told.get("stop_sequence")}
        delta |= {name: told[name] for name in ("stop_details", "container") if name in told}
        last = {"type": "message_delta", "delta": delta, "usage": write_usage(event.usage)}
        last |= {name: told[name] for name in ("context_management", "input_transformations") if name in told}
        out = self._writer.begin() + self._writer.write(last) + self._writer.write({"type": "message_stop"})
        self._over = True
        return out


def _told(metadata: Metadata | None) -> dict[str, Any]:
    return (metadata or {}).get(KEY, {})


def _tool_block(event: ToolInputStart | ToolCall, call_id: str) -> dict[str, Any]:
    kind = "tool_use"
    if event.provider_executed:
        kind = "mcp_tool_use" if event.dynamic else "server_tool_use"
    block = {"type": kind, "id": call_id, "name": event.tool_name, "input": {}}
    return {**block, **_told(event.provider_metadata)}


def _raw_reason(event: Finish) -> str | None:
    """The vendor's own reason where it came from there, else its word for ours."""
    reason, raw = event.finish_reason, event.raw_finish_reason
    if raw is not None:
        meant = FINISH_REASONS.get(raw)
        if reason == (meant or "other") or (reason == "tool-calls" and meant is not None):
            return raw
    return _RAW_REASONS.get(reason)
