"""Writes events as a stream of the Messages API: the reverse of `decoder.py`."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.anthropic.wire import FINISH_REASONS, KEY, InvokeFrames, invoke_frame, write_usage
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
from llmstream.exchange import HttpResponse
from llmstream.serving.wires.aws_errors import exception_frame
from llmstream.serving.wires.complete_responses import GrowingTexts, json_input, sse_objects

__all__ = ["AnthropicEventEncoder", "complete_response", "encode_error", "exception_type"]


# The wire events of one answer as bytes: numbered blocks between message_start and message_stop.


@dataclasses.dataclass(slots=True)
class WrittenBlock:
    """A block that has been begun: its index, and whether a delta or a citation of it was sent.

    thought: tokens of reasoning that its deltas have told
    """

    index: int
    spoken: bool = False
    cited: bool = False
    thought: int = 0


class AnswerWriter:
    """Writes events in the server's framing. Blocks are numbered as they open.

    The message begins by itself before the first block, and a ping follows that block's start,
    as is usual.
    """

    def __init__(
        self, model: str, *, framing: Literal["sse", "aws-event-stream"], new_id: Callable[[], str]
    ) -> None:
        self._model = model
        self._framing = framing
        self._new_id = new_id
        self._begun = False
        self._next_index = 0

    def begin(self, message_id: str | None = None, model: str | None = None) -> bytes:
        """Returns the start of the message once; b"" on later calls."""
        if self._begun:
            return b""
        self._begun = True
        message: dict[str, Any] = {
            "id": message_id or self._new_id(),
            "type": "message",
            "role": "assistant",
            "model": model or self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return self.write({"type": "message_start", "message": message})

    def open_block(self, block: dict[str, Any]) -> tuple[WrittenBlock, bytes]:
        """A block and the bytes that begin it."""
        written = WrittenBlock(self._next_index)
        self._next_index += 1
        start = {"type": "content_block_start", "index": written.index, "content_block": block}
        ping = self.write({"type": "ping"}) if written.index == 0 else b""
        return written, self.begin() + self.write(start) + ping

    def whole(self, block: dict[str, Any]) -> bytes:
        """A block that has no deltas."""
        written, data = self.open_block(block)
        return data + self.stop(written)

    def delta(self, written: WrittenBlock, delta: dict[str, Any]) -> bytes:
        """What a block grows by."""
        return self.write({"type": "content_block_delta", "index": written.index, "delta": delta})

    def stop(self, written: WrittenBlock) -> bytes:
        """The end of a block."""
        return self.write({"type": "content_block_stop", "index": written.index})

    def write(self, wire: dict[str, Any]) -> bytes:
        """One event in the server's framing."""
        data = msgspec.json.encode(wire)
        if self._framing == "aws-event-stream":
            return invoke_frame(data)
        return b"event: %b\ndata: %b\n\n" % (wire["type"].encode(), data)


# Errors in the vendor's form.

_STATUS_OF_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""source: "Errors" in Anthropic's documents"""

_TYPE_OF_STATUS: Final = {status: kind for kind, status in _STATUS_OF_TYPE.items()}

_TYPE_OF_CODE: Final = {
    "bad-request": "invalid_request_error",
    "context-too-long": "invalid_request_error",
    "content-filtered": "invalid_request_error",
    "invalid-request": "invalid_request_error",
    "unsupported": "invalid_request_error",
    "authentication": "authentication_error",
    "missing-key": "authentication_error",
    "permission-denied": "permission_error",
    "not-found": "not_found_error",
    "rate-limited": "rate_limit_error",
    "overloaded": "overloaded_error",
    "deadline-exceeded": "timeout_error",
}

_EXCEPTIONS: Final = {
    "invalid_request_error": "validationException",
    "rate_limit_error": "throttlingException",
    "overloaded_error": "serviceUnavailableException",
    "timeout_error": "modelTimeoutException",
}

_CODE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")


def error_type(info: ErrorInfo) -> str:
    """Returns the vendor's name of an error: the original if it came from this vendor."""
    if info.reason in _STATUS_OF_TYPE:
        return str(info.reason)
    if info.status in _TYPE_OF_STATUS:
        return _TYPE_OF_STATUS[info.status]
    return _TYPE_OF_CODE.get(info.code, "api_error")


def error_event(info: ErrorInfo) -> dict[str, Any]:
    """Builds the error object, as in an error response and inside a stream.

    A reason finer than the type is the code in its details, as `thread_not_found` is.
    """
    error: dict[str, Any] = {"type": error_type(info), "message": info.message}
    if info.reason not in _STATUS_OF_TYPE and _CODE.fullmatch(info.reason or ""):
        error["details"] = {"error_code": info.reason}
    return {"type": "error", "error": error, "request_id": info.request_id}


def exception_type(info: ErrorInfo) -> str:
    """What Bedrock's runtime calls an error inside a stream."""
    return _EXCEPTIONS.get(error_type(info), "internalServerException")


def encode_error(info: ErrorInfo) -> HttpResponse:
    """Builds the response to a rejected request."""
    status = info.status if info.status is not None and info.status >= 400 else None
    headers = {"content-type": "application/json", "x-should-retry": "true" if info.retryable else "false"}
    if info.request_id is not None:
        headers["request-id"] = info.request_id
    if info.retry_after_s is not None:
        headers["retry-after"] = f"{info.retry_after_s:g}"
    body = msgspec.json.encode(error_event(info))
    return HttpResponse(status or _STATUS_OF_TYPE[error_type(info)], body, headers)


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
    """Writes one response.

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
        """Returns the bytes of one event."""
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
        """Writes a call at once if its input did not stream."""
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
        """Writes citations into the text they belong to; the result of a search lists its own hits."""
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


# Complete responses: one `message` object.

_TEXTS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
_OF_EVENT: Final = ("type", "delta", "usage")


def complete_response(body: bytes, *, framing: Literal["sse", "aws-event-stream"]) -> dict[str, Any]:
    """The message that the events of a stream make."""
    if framing == "sse":
        return _message(sse_objects(body))
    frames = InvokeFrames(provider="bedrock", max_bytes=max(1024, len(body)))
    return _message(map(msgspec.json.decode, frames.feed_data(body)))


def _message(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    texts = GrowingTexts()
    message: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, list[str]] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                blocks[event["index"]] = event["content_block"]
            case "content_block_delta":
                delta, index = event["delta"], event["index"]
                if delta["type"] == "input_json_delta":
                    inputs.setdefault(index, []).append(delta["partial_json"])
                elif delta["type"] == "citations_delta":
                    blocks[index].setdefault("citations", []).append(delta["citation"])
                elif (name := _TEXTS.get(delta["type"])) is not None:
                    texts.add(blocks[index], name, delta[name])
            case "message_delta":
                message |= event["delta"]
                message |= {name: value for name, value in event.items() if name not in _OF_EVENT}
                message["usage"] = {**message.get("usage", {}), **event["usage"]}
    texts.join()
    for index, fragments in inputs.items():
        blocks[index]["input"] = json_input("".join(fragments))
    message["content"] = list(blocks.values())
    return message
