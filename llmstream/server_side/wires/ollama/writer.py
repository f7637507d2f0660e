"""Writes events as the lines of an Ollama response, and errors in Ollama's form."""

from __future__ import annotations

import base64
import datetime
from typing import Any, Final

import msgspec

from llmstream.dialects.ollama.wire import FINISH_REASONS, USAGE_FIELDS, object_text
from llmstream.dialects.wire_values import LOGPROBS, logprobs_of
from llmstream.errors import ErrorInfo
from llmstream.events import (
    File,
    Finish,
    Metadata,
    ResponseMetadata,
    TextDelta,
    ToolCall,
    ToolInputStart,
    Usage,
)
from llmstream.exchange import HttpResponse
from llmstream.request import Request
from llmstream.server_side.wires.errors import error_response
from llmstream.server_side.wires.event_writer import Block, Delta, GrowingTexts, Part, Shapes, Start

__all__ = ["OllamaShapes", "complete_response", "encode_error"]


_REASONS: Final = {"stop": "stop", "content-filter": "stop", "length": "length"}

_encoder = msgspec.json.Encoder()


class OllamaShapes(Shapes[Block]):
    """A line for each fragment and each call; the last line has reason and counts.

    Left out, because the wire cannot express it: block ends, sources, files that are not images, calls
    that the vendor ran, and errors after which a response continues.
    """

    key = "ollama"
    begins_at = ()

    def __init__(self, request: Request) -> None:
        self._head: dict[str, Any] = {"model": request.model}
        self._calls = 0

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores model and time, which all lines repeat."""
        if event.model_id is not None:
            self._head["model"] = event.model_id
        if event.timestamp is not None:
            self._head["created_at"] = _rfc3339(event.timestamp)
        return b""

    def start(self, event: Start) -> tuple[Block, bytes] | None:
        """Blocks have no start; calls are written in one piece."""
        return None if isinstance(event, ToolInputStart) else (Block(), b"")

    def delta(self, block: Block, event: Delta) -> bytes:
        """Writes a fragment, unless it is empty."""
        if not event.delta:
            return b""
        is_text = isinstance(event, TextDelta)
        message = {"content": event.delta} if is_text else {"content": "", "thinking": event.delta}
        return self._line(message, **_logprobs(event.provider_metadata))

    def call(self, event: ToolCall) -> bytes:
        """Writes a call in one piece, as the vendor does."""
        if event.provider_executed:
            return b""
        arguments, _ = object_text(event.input)
        function = {"index": self._calls, "name": event.tool_name, "arguments": arguments}
        self._calls += 1
        return self._line({"content": "", "tool_calls": [{"id": event.tool_call_id, "function": function}]})

    def part(self, event: Part, block: Block | None) -> bytes:
        """Writes an image."""
        if not isinstance(event, File) or not event.media_type.startswith("image/"):
            return b""
        if not isinstance(event.data, bytes):
            return b""
        return self._line({"content": "", "images": [base64.b64encode(event.data).decode()]})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes the last line."""
        if event.finish_reason == "error":
            return None
        last: dict[str, Any] = {"done": True, **_logprobs(event.provider_metadata)}
        reason = self._reason(event)
        if reason is not None:
            last["done_reason"] = reason
        return self._line({"content": ""}, **last, **_counts(event.usage))

    def error(self, error: ErrorInfo) -> bytes:
        """Writes a line with the message."""
        return _json_line({"error": error.message})

    def _line(self, message: dict[str, Any], **fields: Any) -> bytes:
        return _json_line(
            {**self._head, "message": {"role": "assistant", **message}, "done": False, **fields}
        )

    def _reason(self, event: Finish) -> str | None:
        """Maps the finish reason to Ollama's; another vendor's name is not passed on."""
        raw, reason = event.raw_finish_reason, event.finish_reason
        if reason == "other":
            return raw or "other"
        if raw in FINISH_REASONS or reason == "unknown":
            return raw if raw in FINISH_REASONS else None
        if reason == "tool-calls":
            # The server reports "stop" after calls.
            return "stop" if self._calls else "tool_calls"
        return _REASONS[reason]


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response, a status and `{"error": "message"}`."""
    headers = {"content-type": "application/json; charset=utf-8"}
    return error_response(error, {"error": error.message}, headers=headers)


def _logprobs(metadata: Metadata | None) -> dict[str, Any]:
    found = logprobs_of(metadata) if metadata else []
    return {LOGPROBS: found} if found else {}


def _counts(usage: Usage) -> dict[str, Any]:
    """Returns the vendor's own counts and durations, if known, updated with ours."""
    raw = usage.raw if isinstance(usage.raw, dict) else {}
    counts = {name: raw[name] for name in USAGE_FIELDS if raw.get(name) is not None}
    if usage.input_tokens is not None:
        counts["prompt_eval_count"] = usage.input_tokens
    if usage.output_tokens is not None:
        counts["eval_count"] = usage.output_tokens
    return counts


def _rfc3339(timestamp: datetime.datetime) -> str:
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=datetime.UTC)
    return timestamp.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _json_line(value: dict[str, Any]) -> bytes:
    return _encoder.encode(value) + b"\n"


# Complete responses: the object of `"stream": false`.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the response from the lines of a stream."""
    texts = GrowingTexts()
    response: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    logprobs: list[Any] = []
    for line in filter(None, body.split(b"\n")):
        chunk: dict[str, Any] = msgspec.json.decode(line)
        for name, value in chunk.pop("message", {}).items():
            if isinstance(value, list):
                message.setdefault(name, []).extend(value)
            elif name != "role":
                texts.add(message, name, value)
        logprobs += chunk.pop("logprobs", ())
        response |= chunk
    texts.join()
    response["message"] = message
    return {**response, "logprobs": logprobs} if logprobs else response
