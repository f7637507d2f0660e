"""Writes events as a Cohere stream: the reverse of `decoder.py`."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Final

from llmstream.dialects.cohere.wire import (
    FINISH_REASONS,
    KEY,
    citation_of,
    told_citation,
    write_usage,
)
from llmstream.dialects.wire_values import LOGPROBS
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import (
    Custom,
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.exchange import HttpResponse
from llmstream.server_side.wires.errors import error_response
from llmstream.server_side.wires.event_writer import (
    DONE,
    MODEL_FAILED,
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    raw_reason,
    sse_event,
    sse_objects,
)

__all__ = ["CohereShapes", "complete_response", "encode_error", "refused", "unknown_field"]


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "COMPLETE",
    "length": "MAX_TOKENS",
    "content-filter": "ERROR_TOXIC",
    "tool-calls": "TOOL_CALL",
    "error": "ERROR",
    "other": "OTHER",
}


@dataclasses.dataclass(slots=True)
class ContentBlock(Block):
    """An open block; is_plan: it is the tool plan, which has no index, start or end on the wire."""

    is_plan: bool = False


class CohereShapes(Shapes[ContentBlock]):
    """Content, calls and citations, numbered separately, between `message-start` and `message-end`.

    Left out, because the wire cannot express it: files, tools that the vendor ran, raw events.
    """

    key = KEY
    end_mark = DONE

    def __init__(self) -> None:
        self._id = "00000000-0000-4000-8000-000000000000"
        self._content_indexes = itertools.count()
        self._call_indexes = itertools.count()
        self._citation_indexes = itertools.count()

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores the id for `message-start`."""
        self._id = event.id or self._id
        return b""

    def begin(self) -> bytes:
        """Writes `message-start`."""
        message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        return _write({"id": self._id, "type": "message-start", "delta": {"message": message}})

    def start(self, event: Start) -> tuple[ContentBlock, bytes] | None:
        """Opens content, the tool plan or a call."""
        if isinstance(event, ToolInputStart):
            if event.provider_executed:
                return None
            block = ContentBlock(next(self._call_indexes))
            function = {"name": event.tool_name, "arguments": ""}
            call = {"id": event.id, "type": "function", "function": function}
            return block, _message("tool-call-start", block.index, {"tool_calls": call})
        if isinstance(event, ReasoningStart) and self.own(event.provider_metadata).get("tool_plan"):
            return ContentBlock(is_plan=True), b""
        block = ContentBlock(next(self._content_indexes))
        kind = "thinking" if isinstance(event, ReasoningStart) else "text"
        return block, _message("content-start", block.index, {"content": {"type": kind, kind: ""}})

    def delta(self, block: ContentBlock, event: Delta) -> bytes:
        """Extends content, the tool plan or a call."""
        if block.is_plan:
            return _message("tool-plan-delta", None, {"tool_plan": event.delta})
        if not isinstance(event, TextDelta | ReasoningDelta):
            call = {"function": {"arguments": event.delta}}
            return _message("tool-call-delta", block.index, {"tool_calls": call})
        content = {"text" if isinstance(event, TextDelta) else "thinking": event.delta}
        # Unlike OpenAI's, one object for a fragment, not a list of tokens.
        found = self.own(event.provider_metadata).get(LOGPROBS)
        logprobs = {LOGPROBS: found[0]} if found else {}
        return _message("content-delta", block.index, {"content": content}, **logprobs)

    def end(self, block: ContentBlock, event: End) -> bytes:
        """Closes content or a call."""
        if block.is_plan:
            return b""
        kind = "tool-call-end" if isinstance(event, ToolInputEnd) else "content-end"
        return _write({"type": kind, "index": block.index})

    def part(self, event: Part, block: ContentBlock | None) -> bytes:
        """Writes a citation once, with all its sources."""
        if not isinstance(event, Source | Custom):
            return b""
        if "citation" in self.own(event.provider_metadata):
            citation = told_citation(event.provider_metadata)
        else:
            citation = citation_of(event) if isinstance(event, Source) else None
        if citation is None:
            return b""
        index = next(self._citation_indexes)
        start = _message("citation-start", index, {"citations": citation})
        return start + _write({"type": "citation-end", "index": index})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes:
        """Writes `message-end`, which reports an error as well."""
        delta: dict[str, Any] = {}
        raw = raw_reason(event, lambda raw: FINISH_REASONS.get(raw.upper()), _RAW_REASONS)
        if raw is not None:
            delta["finish_reason"] = raw
        if event.finish_reason == "error":
            delta["error"] = (error or MODEL_FAILED).message
        usage = write_usage(event.usage)
        if usage is not None:
            delta["usage"] = usage
        prompt = (self.own(event.provider_metadata).get("debug") or {}).get("prompt")
        debug = _write({"type": "debug", "prompt": prompt}) if prompt else b""
        return debug + _write({"type": "message-end", "delta": delta})


def _message(kind: str, index: int | None, message: dict[str, Any], **fields: Any) -> bytes:
    """Writes an event with a part of the message; the tool plan has no index."""
    place = {} if index is None else {"index": index}
    return _write({"type": kind, **fields, **place, "delta": {"message": message}})


def _write(event: dict[str, Any]) -> bytes:
    return sse_event(event["type"], event)


# Complete responses: one object of `POST /v2/chat`.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the response of `POST /v2/chat` from the events of a stream."""
    texts = GrowingTexts()
    response: dict[str, Any] = {"id": ""}
    message: dict[str, Any] = {"role": "assistant"}
    contents: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    citations: list[Any] = []
    logprobs: list[Any] = []
    for event in sse_objects(body):
        part = (event.get("delta") or {}).get("message") or {}
        match event["type"]:
            case "message-start":
                response["id"] = event["id"]
            case "content-start":
                contents[event["index"]] = part["content"]
            case "content-delta":
                for name, fragment in part["content"].items():
                    texts.add(contents[event["index"]], name, fragment)
                logprobs += [event["logprobs"]] if event.get("logprobs") else []
            case "tool-plan-delta":
                texts.add(message, "tool_plan", part["tool_plan"])
            case "tool-call-start":
                calls[event["index"]] = part["tool_calls"]
            case "tool-call-delta":
                fragment = part["tool_calls"]["function"]["arguments"]
                texts.add(calls[event["index"]]["function"], "arguments", fragment)
            case "citation-start":
                citations.append(part["citations"])
            case "message-end":
                response |= {name: value for name, value in event["delta"].items() if name != "error"}
            case "debug":
                response["prompt"] = event.get("prompt")
    texts.join()
    lists = {"content": list(contents.values()), "tool_calls": list(calls.values()), "citations": citations}
    response["message"] = {**message, **{name: value for name, value in lists.items() if value}}
    return {**response, "logprobs": logprobs} if logprobs else response


# Errors in Cohere's form.


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
    body: dict[str, Any] = {"message": error.message}
    if error.request_id:
        body["id"] = error.request_id
    if error.code == "context-too-long":
        body["error_type"] = "TOO_MANY_TOKENS"
    return error_response(error, body)
