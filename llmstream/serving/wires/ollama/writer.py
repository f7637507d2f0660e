"""Writes events as the lines of an Ollama response, and errors in Ollama's form."""

from __future__ import annotations

import base64
import datetime
from typing import Any, Final

import msgspec

from llmstream.dialects.logprobs import LOGPROBS, logprobs_of
from llmstream.dialects.ollama.wire import FINISH_REASONS, USAGE_FIELDS, object_text
from llmstream.errors import ErrorInfo
from llmstream.events import (
    ErrorEvent,
    Event,
    File,
    Finish,
    Metadata,
    ReasoningDelta,
    ResponseMetadata,
    TextDelta,
    ToolCall,
    Usage,
)
from llmstream.exchange import HttpResponse
from llmstream.request import Request
from llmstream.serving.wires.complete_responses import GrowingTexts

__all__ = ["OllamaEventEncoder", "complete_response", "encode_error"]


_STATUS: Final = {
    "bad-request": 400,
    "context-too-long": 400,
    "content-filtered": 400,
    "invalid-request": 400,
    "authentication": 401,
    "permission-denied": 403,
    "not-found": 404,
    "rate-limited": 429,
    "overloaded": 503,
}

_REASONS: Final = {"stop": "stop", "content-filter": "stop", "length": "length"}

_encoder = msgspec.json.Encoder()


class OllamaEventEncoder:
    """One line for each fragment and each call; the last one holds reason and counts.

    The wire has no word for block ends, sources, files that are no pictures, calls that the vendor ran,
    and errors after which an answer goes on. A `response-metadata` gives model and time of all lines.
    """

    def __init__(self, request: Request) -> None:
        self._head: dict[str, Any] = {"model": request.model}
        self._error: ErrorInfo | None = None
        self._calls = 0
        self._ended = False

    def feed(self, event: Event) -> bytes:
        """Returns the line of one event; b"" if there is none."""
        match event:
            case TextDelta(delta) if delta:
                return self._line({"content": delta}, **_logprobs(event.provider_metadata))
            case ReasoningDelta(delta) if delta:
                thought = {"content": "", "thinking": delta}
                return self._line(thought, **_logprobs(event.provider_metadata))
            case File(media_type, data) if media_type.startswith("image/") and isinstance(data, bytes):
                return self._line({"content": "", "images": [base64.b64encode(data).decode()]})
            case ToolCall() if not event.provider_executed:
                return self._call(event)
            case ResponseMetadata():
                self._introduce(event)
            case ErrorEvent(error):
                self._error = error
            case Finish():
                return self._finish(event)
            case _:
                pass
        return b""

    def close(self) -> bytes:
        """Returns an error that no finish followed; the wire has no end mark."""
        if self._error is None or self._ended:
            return b""
        self._ended = True
        return _json_line({"error": self._error.message})

    def _introduce(self, event: ResponseMetadata) -> None:
        if event.model_id is not None:
            self._head["model"] = event.model_id
        if event.timestamp is not None:
            self._head["created_at"] = _rfc3339(event.timestamp)

    def _line(self, message: dict[str, Any], **rest: Any) -> bytes:
        return _json_line({**self._head, "message": {"role": "assistant", **message}, "done": False, **rest})

    def _call(self, event: ToolCall) -> bytes:
        arguments, _ = object_text(event.input)
        function = {"index": self._calls, "name": event.tool_name, "arguments": arguments}
        self._calls += 1
        return self._line({"content": "", "tool_calls": [{"id": event.tool_call_id, "function": function}]})

    def _finish(self, event: Finish) -> bytes:
        self._ended = True
        if event.finish_reason == "error":
            words = self._error.message if self._error is not None else "the model failed"
            return _json_line({"error": words})
        rest: dict[str, Any] = {"done": True, **_logprobs(event.provider_metadata)}
        reason = self._reason(event)
        if reason is not None:
            rest["done_reason"] = reason
        return self._line({"content": ""}, **rest, **_counts(event.usage))

    def _reason(self, event: Finish) -> str | None:
        """Maps the finish reason to Ollama's; another vendor's name is not passed on."""
        raw, reason = event.raw_finish_reason, event.finish_reason
        if reason == "other":
            return raw or "other"
        if raw in FINISH_REASONS or reason == "unknown":
            return raw if raw in FINISH_REASONS else None
        if reason == "tool-calls":
            return "stop" if self._calls else "tool_calls"  # the daemon's word after calls
        return _REASONS[reason]


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response, a status and `{"error": "message"}`."""
    headers = {"content-type": "application/json; charset=utf-8"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    status = error.status if error.status is not None and error.status >= 400 else None
    body = _encoder.encode({"error": error.message})
    return HttpResponse(status or _STATUS.get(error.code, 500), body, headers)


def _logprobs(metadata: Metadata | None) -> dict[str, Any]:
    found = logprobs_of(metadata) if metadata else []
    return {LOGPROBS: found} if found else {}


def _counts(usage: Usage) -> dict[str, Any]:
    """The vendor's own counts and durations where they are known, and ours over them."""
    raw = usage.raw if isinstance(usage.raw, dict) else {}
    counts = {name: raw[name] for name in USAGE_FIELDS if raw.get(name) is not None}
    if usage.input_tokens is not None:
        counts["prompt_eval_count"] = usage.input_tokens
    if usage.output_tokens is not None:
        counts["eval_count"] = usage.output_tokens
    return counts


def _rfc3339(when: datetime.datetime) -> str:
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return when.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _json_line(value: dict[str, Any]) -> bytes:
    return _encoder.encode(value) + b"\n"


# Complete responses: the object of `"stream": false`.


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the lines make."""
    texts = GrowingTexts()
    answer: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    logprobs: list[Any] = []
    for line in filter(None, body.split(b"\n")):
        said: dict[str, Any] = msgspec.json.decode(line)
        for name, value in said.pop("message", {}).items():
            if isinstance(value, list):
                message.setdefault(name, []).extend(value)
            elif name != "role":
                texts.add(message, name, value)
        logprobs += said.pop("logprobs", ())
        answer |= said
    texts.join()
    answer["message"] = message
    return {**answer, "logprobs": logprobs} if logprobs else answer
