"""Writes events as a Cohere stream: the reverse of `decoder.py`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.cohere.wire import KEY, citation_of, raw_reason, told_citation, write_usage
from llmstream.dialects.logprobs import LOGPROBS
from llmstream.errors import BadRequest, ErrorInfo
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
)
from llmstream.exchange import HttpResponse
from llmstream.serving.wires.complete_responses import GrowingTexts, sse_objects

__all__ = ["CohereEventEncoder", "complete_response", "encode_error", "refused", "unknown_field"]


_ANSWER_ID = "00000000-0000-4000-8000-000000000000"


class CohereEventEncoder:
    """Writes one response.

    Left out, because the wire cannot express it: files, tools that the vendor ran, raw events. An
    error event is written where it ends the answer.
    """

    def __init__(self) -> None:
        self._begun = False
        self._over = False
        self._contents: dict[str, int] = {}
        self._inputs: dict[str, int] = {}
        self._plans: set[str] = set()
        self._citations = 0
        self._content_count = 0
        self._error: ErrorInfo | None = None

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event."""
        match event:
            case TextDelta(words):
                return self._content_delta(event.id, {"text": words}, event.provider_metadata)
            case ReasoningDelta(words):
                if event.id in self._plans:
                    return self._say("tool-plan-delta", None, {"tool_plan": words})
                return self._content_delta(event.id, {"thinking": words}, event.provider_metadata)
            case ToolInputDelta(words):
                return self._call_delta(event.id, words)
            case TextStart():
                return self._content_start(event.id, {"type": "text", "text": ""})
            case ReasoningStart():
                if _own(event.provider_metadata).get("tool_plan"):
                    self._plans.add(event.id)
                    return b""
                return self._content_start(event.id, {"type": "thinking", "thinking": ""})
            case TextEnd() | ReasoningEnd():
                return b"" if event.incomplete else self._content_end(event.id)
            case ToolInputStart():
                return b"" if event.provider_executed else self._call_start(event.id, event.tool_name)
            case ToolInputEnd():
                return b"" if event.incomplete else self._call_end(event.id)
            case ToolCall():
                return self._call(event)
            case Source() | Custom():
                return self._cite(event)
            case ResponseMetadata():
                return self._begin(event.id or _ANSWER_ID)
            case ErrorEvent():
                self._error = event.error
            case Finish():
                return self._finish(event)
        return b""

    def close(self) -> bytes:
        """`[DONE]`, behind the end of the message."""
        return b"data: [DONE]\n\n" if self._over else b""

    def _begin(self, answer_id: str = _ANSWER_ID) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        return _frame({"id": answer_id, "type": "message-start", "delta": {"message": message}})

    def _say(self, kind: str, index: int | None, message: dict[str, Any] | None = None, **more: Any) -> bytes:
        event: dict[str, Any] = {"type": kind, **more}
        if index is not None:
            event["index"] = index
        if message is not None:
            event["delta"] = {"message": message}
        return self._begin() + _frame(event)

    def _content_start(self, block_id: str, content: dict[str, Any]) -> bytes:
        self._contents[block_id] = self._content_count
        self._content_count += 1
        return self._say("content-start", self._contents[block_id], {"content": content})

    def _content_delta(self, block_id: str, content: dict[str, Any], metadata: Metadata | None) -> bytes:
        index = self._contents.get(block_id)
        if index is None:
            return b""
        found = _own(metadata).get(LOGPROBS)  # one object a fragment, of a shape of its own
        beside = {LOGPROBS: found[0]} if found else {}
        return self._say("content-delta", index, {"content": content}, **beside)

    def _content_end(self, block_id: str) -> bytes:
        index = self._contents.get(block_id)
        return b"" if index is None else self._say("content-end", index)

    def _call_start(self, call_id: str, name: str) -> bytes:
        index = self._inputs[call_id] = len(self._inputs)
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        return self._say("tool-call-start", index, {"tool_calls": call})

    def _call_delta(self, call_id: str, arguments: str) -> bytes:
        index = self._inputs.get(call_id)
        call = {"function": {"arguments": arguments}}
        return b"" if index is None else self._say("tool-call-delta", index, {"tool_calls": call})

    def _call_end(self, call_id: str) -> bytes:
        index = self._inputs.get(call_id)
        return b"" if index is None else self._say("tool-call-end", index)

    def _call(self, event: ToolCall) -> bytes:
        """Writes a call at once if its input did not stream."""
        call_id = event.tool_call_id
        if event.provider_executed or call_id in self._inputs:
            return b""
        begun = self._call_start(call_id, event.tool_name)
        return begun + self._call_delta(call_id, event.input) + self._call_end(call_id)

    def _cite(self, event: Source | Custom) -> bytes:
        """A citation once, with all its sources."""
        if "citation" in _own(event.provider_metadata):
            citation = told_citation(event.provider_metadata)
        else:
            citation = citation_of(event) if isinstance(event, Source) else None
        if citation is None:
            return b""
        index = self._citations
        self._citations += 1
        begun = self._say("citation-start", index, {"citations": citation})
        return begun + self._say("citation-end", index)

    def _finish(self, event: Finish) -> bytes:
        delta: dict[str, Any] = {}
        raw = raw_reason(event)
        if raw is not None:
            delta["finish_reason"] = raw
        if event.finish_reason == "error":
            delta["error"] = self._error.message if self._error is not None else "the model failed"
        usage = write_usage(event.usage)
        if usage is not None:
            delta["usage"] = usage
        self._over = True
        prompt = (_own(event.provider_metadata).get("debug") or {}).get("prompt")
        debug = self._say("debug", None, prompt=prompt) if prompt else b""
        return self._begin() + debug + _frame({"type": "message-end", "delta": delta})


def _own(metadata: Metadata | None) -> dict[str, Any]:
    return (metadata or {}).get(KEY) or {}


def _frame(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"


# Complete responses: one object of `POST /v2/chat`.


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the events of a stream make."""
    texts = GrowingTexts()
    answer: dict[str, Any] = {"id": ""}
    message: dict[str, Any] = {"role": "assistant"}
    contents: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    citations: list[Any] = []
    logprobs: list[Any] = []
    for event in sse_objects(body):
        said = (event.get("delta") or {}).get("message") or {}
        match event["type"]:
            case "message-start":
                answer["id"] = event["id"]
            case "content-start":
                contents[event["index"]] = said["content"]
            case "content-delta":
                for name, fragment in said["content"].items():
                    texts.add(contents[event["index"]], name, fragment)
                logprobs += [event["logprobs"]] if event.get("logprobs") else []
            case "tool-plan-delta":
                texts.add(message, "tool_plan", said["tool_plan"])
            case "tool-call-start":
                calls[event["index"]] = said["tool_calls"]
            case "tool-call-delta":
                fragment = said["tool_calls"]["function"]["arguments"]
                texts.add(calls[event["index"]]["function"], "arguments", fragment)
            case "citation-start":
                citations.append(said["citations"])
            case "message-end":
                answer |= {name: value for name, value in event["delta"].items() if name != "error"}
            case "debug":
                answer["prompt"] = event.get("prompt")
    texts.join()
    lists = {"content": list(contents.values()), "tool_calls": list(calls.values()), "citations": citations}
    answer["message"] = {**message, **{name: value for name, value in lists.items() if value}}
    return {**answer, "logprobs": logprobs} if logprobs else answer


# Errors in Cohere's form.

_STATUS: Final = {
    "bad-request": 400,
    "context-too-long": 400,
    "content-filtered": 400,
    "invalid-request": 400,
    "unsupported": 400,
    "authentication": 401,
    "permission-denied": 403,
    "not-found": 404,
    "rate-limited": 429,
    "overloaded": 503,
    "deadline-exceeded": 504,
}


def refused(message: str, status: int = 400) -> BadRequest:
    """Returns the error of an invalid request."""
    return BadRequest(message, status=status)


def unknown_field(name: str) -> BadRequest:
    """Returns the error of an unknown field, at any depth."""
    return refused(
        f"unknown field: parameter '{name}' is not a valid field. "
        "For proper usage, please refer to https://docs.cohere.com/reference/chat",
        422,
    )


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response, `{id, message}`."""
    status = error.status if error.status is not None and error.status >= 400 else None
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    body: dict[str, Any] = {"message": error.message}
    if error.request_id:
        body["id"] = error.request_id
    if error.code == "context-too-long":
        body["error_type"] = "TOO_MANY_TOKENS"
    return HttpResponse(status or _STATUS.get(error.code, 500), msgspec.json.encode(body), headers)
