"""Writes events as a stream of the Messages API: the reverse of `decoder.py`."""

from __future__ import annotations

import dataclasses
import itertools
import re
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.anthropic.wire import FINISH_REASONS, KEY, invoke_frame, invoke_frames, write_usage
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputStart,
    ToolResult,
)
from llmstream.exchange import HttpResponse
from llmstream.server_side.wires.errors import error_response, exception_frame
from llmstream.server_side.wires.event_writer import (
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    json_input,
    raw_reason,
    sse_event,
    sse_objects,
)

__all__ = ["AnthropicShapes", "complete_response", "encode_error", "exception_type"]


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "refusal",
    "other": "end_turn",
}


@dataclasses.dataclass(slots=True)
class ContentBlock(Block):
    """An open content block.

    grown:           a delta of it was written
    cited:           a citation of it was written
    thinking_tokens: those that its deltas have reported
    """

    grown: bool = False
    cited: bool = False
    thinking_tokens: int = 0


def new_message_id() -> str:
    """Makes an id in the vendor's form."""
    return f"msg_{secrets.token_hex(12)}"


class AnthropicShapes(Shapes[ContentBlock]):
    """Numbered content blocks between `message_start` and `message_stop`.

    Left out, because the wire cannot express it: files and raw events.
    """

    key = KEY

    def __init__(
        self,
        model: str,
        *,
        framing: Literal["sse", "aws-event-stream"] = "sse",
        new_id: Callable[[], str] = new_message_id,
    ) -> None:
        self._model = model
        self._framing = framing
        self._new_id = new_id
        self._id: str | None = None
        self._indexes = itertools.count()

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores id and model for `message_start`."""
        self._id, self._model = event.id, event.model_id or self._model
        return b""

    def begin(self) -> bytes:
        """Writes `message_start`."""
        message: dict[str, Any] = {
            "id": self._id or self._new_id(),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            # The vendor sends the input tokens here. Ours are known only at the end, when `message_delta`
            # replaces both.
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return self._write({"type": "message_start", "message": message})

    def start(self, event: Start) -> tuple[ContentBlock, bytes]:
        """Opens a content block."""
        own = self.own(event.provider_metadata)
        if isinstance(event, TextStart):
            return self._open({"type": "text", "text": ""})
        if isinstance(event, ToolInputStart):
            kind = "tool_use"
            if event.provider_executed:
                kind = "mcp_tool_use" if event.dynamic else "server_tool_use"
            return self._open({"type": kind, "id": event.id, "name": event.tool_name, "input": {}, **own})
        if "redacted_data" in own:
            return self._open({"type": "redacted_thinking", "data": own["redacted_data"]})
        return self._open({"type": "thinking", "thinking": "", "signature": ""})

    def delta(self, block: ContentBlock, event: Delta) -> bytes:
        """Extends a content block."""
        if isinstance(event, TextDelta):
            return self._grow(block, {"type": "text_delta", "text": event.delta})
        if not isinstance(event, ReasoningDelta):
            return self._grow(block, {"type": "input_json_delta", "partial_json": event.delta})
        delta: dict[str, Any] = {"type": "thinking_delta", "thinking": event.delta}
        estimate = self.own(event.provider_metadata).get("estimated_tokens")
        if isinstance(estimate, int):
            delta["estimated_tokens"] = estimate
            block.thinking_tokens += estimate
        return self._grow(block, delta)

    def end(self, block: ContentBlock, event: End) -> bytes:
        """Closes a content block."""
        own = self.own(event.provider_metadata)
        out = b""
        if isinstance(event, TextEnd):
            # Metadata lists them all, also those that were written as sources.
            for citation in [] if block.cited else own.get("citations") or ():
                out += self._grow(block, {"type": "citations_delta", "citation": citation})
        elif isinstance(event, ReasoningEnd):
            out = self._sign(block, own)
        elif not block.grown:
            # The vendor sends one empty fragment for a call without input, and SDKs parse the joined text.
            out = self._grow(block, {"type": "input_json_delta", "partial_json": ""})
        return out + self._stop(block)

    def _sign(self, block: ContentBlock, own: dict[str, Any]) -> bytes:
        """Writes the metadata of reasoning: tokens that no delta has reported, and the signature."""
        out = b""
        estimate = own.get("estimated_tokens")
        if isinstance(estimate, int) and estimate > block.thinking_tokens:
            rest = {"thinking": "", "estimated_tokens": estimate - block.thinking_tokens}
            out = self._grow(block, {"type": "thinking_delta", **rest})
        if own.get("signature"):
            out += self._grow(block, {"type": "signature_delta", "signature": own["signature"]})
        return out

    def result(self, event: ToolResult) -> bytes:
        """Writes the result of the vendor's tool as a block of its own."""
        block = {"type": f"{event.tool_name}_tool_result", **self.own(event.provider_metadata)}
        block |= {"tool_use_id": event.tool_call_id, "content": event.result}
        # Errors of the vendor's tools have a type, such as `web_search_tool_result_error`, and no `is_error`.
        has_error_type = isinstance(event.result, dict) and str(event.result.get("type")).endswith("_error")
        if block["type"] == "mcp_tool_result" or (event.is_error and not has_error_type):
            block["is_error"] = event.is_error
        return self._in_one_piece(block)

    def part(self, event: Part, block: ContentBlock | None) -> bytes:
        """Writes citations into their text, and blocks that only this vendor has."""
        own = self.own(event.provider_metadata)
        if isinstance(event, Source):
            # A search result lists its own hits; only sources of a text are citations.
            if block is None or not str(own.get("type")).endswith("_location"):
                return b""
            block.cited = True
            return self._grow(block, {"type": "citations_delta", "citation": own})
        if not isinstance(event, Custom) or not event.kind.startswith(f"{KEY}."):
            return b""
        content = {"type": event.kind.removeprefix(f"{KEY}."), **own}
        if content["type"] != "compaction" or not isinstance(content.get("content"), str):
            return self._in_one_piece(content)
        opened, data = self._open({**content, "content": None})
        delta = {"type": "compaction_delta", "content": content["content"]}
        return data + self._grow(opened, delta) + self._stop(opened)

    def ends_at(self, error: ErrorInfo) -> bool:
        """The vendor closes the stream at any error."""
        return True

    def error(self, error: ErrorInfo) -> bytes:
        """Writes an `error` event, or an exception of Bedrock's runtime."""
        if self._framing == "sse":
            return self._write(error_event(error))
        return exception_frame(exception_type(error), error.message)

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes stop reason, usage and `message_stop`; the wire has no stop reason for an error."""
        if event.finish_reason == "error":
            return None
        own = self.own(event.provider_metadata)
        reason = raw_reason(event, FINISH_REASONS.get, _RAW_REASONS)
        delta = {"stop_reason": reason, "stop_sequence": own.get("stop_sequence")}
        delta |= {name: own[name] for name in ("stop_details", "container") if name in own}
        last = {"type": "message_delta", "delta": delta, "usage": write_usage(event.usage)}
        last |= {name: own[name] for name in ("context_management", "input_transformations") if name in own}
        return self._write(last) + self._write({"type": "message_stop"})

    def _open(self, content: dict[str, Any]) -> tuple[ContentBlock, bytes]:
        block = ContentBlock(next(self._indexes))
        start = {"type": "content_block_start", "index": block.index, "content_block": content}
        # The vendor pings after the start of the first block.
        ping = self._write({"type": "ping"}) if block.index == 0 else b""
        return block, self._write(start) + ping

    def _grow(self, block: ContentBlock, delta: dict[str, Any]) -> bytes:
        block.grown = True
        return self._write({"type": "content_block_delta", "index": block.index, "delta": delta})

    def _stop(self, block: ContentBlock) -> bytes:
        return self._write({"type": "content_block_stop", "index": block.index})

    def _in_one_piece(self, content: dict[str, Any]) -> bytes:
        block, data = self._open(content)
        return data + self._stop(block)

    def _write(self, wire: dict[str, Any]) -> bytes:
        if self._framing == "aws-event-stream":
            return invoke_frame(msgspec.json.encode(wire))
        return sse_event(wire["type"], wire)


# Errors in the vendor's form.

# source: "Errors" in Anthropic's documentation
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

# A reason in this vendor's style; ValidationException of AWS is not one.
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
    """The name of an error inside a stream of Bedrock's runtime."""
    return _EXCEPTIONS.get(error_type(info), "internalServerException")


def encode_error(info: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    status = _STATUS_OF_TYPE[error_type(info)] if (info.status or 0) < 400 else info.status
    # The vendor's clients follow it whatever the status is.
    headers = {"x-should-retry": "true" if info.retryable else "false"}
    return error_response(info, error_event(info), status=status, request_id="request-id", headers=headers)


# Complete responses: one `message` object.

_TEXTS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
_OF_EVENT: Final = ("type", "delta", "usage")


def complete_response(body: bytes, *, framing: Literal["sse", "aws-event-stream"]) -> dict[str, Any]:
    """The message assembled from the events of a stream."""
    if framing == "sse":
        return _message(sse_objects(body))
    frames = invoke_frames(provider="bedrock", max_bytes=max(1024, len(body)))
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
                # The later counts replace those of `message_start`, and may lack some of its fields.
                message["usage"] = {**message.get("usage", {}), **event["usage"]}
    texts.join()
    for index, fragments in inputs.items():
        blocks[index]["input"] = json_input("".join(fragments))
    message["content"] = list(blocks.values())
    return message
