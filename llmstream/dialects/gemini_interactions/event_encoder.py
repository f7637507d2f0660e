"""Events as the stream that the Interactions API would have sent: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import secrets
from typing import Any, Final

import msgspec

from llmstream.dialects.gemini_interactions.steps import FINISH_REASONS, KEY
from llmstream.dialects.gemini_interactions.usage import write_usage
from llmstream.dialects.google_errors import status_of
from llmstream.dialects.google_sources import document_uri
from llmstream.dialects.json_text import object_text
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    Error,
    Event,
    File,
    Finish,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
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

__all__ = ["InteractionsEventEncoder"]

_STATUS: Final = {
    "stop": "completed",
    "tool-calls": "requires_action",
    "length": "incomplete",
    "content-filter": "incomplete",
    "error": "failed",
    "other": "cancelled",
    "unknown": "completed",
}
_CODES: Final = {
    400: "invalid_request",
    401: "authentication_error",
    403: "permission_denied",
    404: "not_found",
    429: "rate_limit_exceeded",
    503: "service_unavailable",
    504: "gateway_timeout",
}


@dataclasses.dataclass(slots=True)
class _Open:
    index: int
    kind: str


class InteractionsEventEncoder:
    """Writes one answer. The interaction begins by itself before its first step.

    After an error nothing more is written, for the vendor closes the stream there.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = f"v1_{secrets.token_urlsafe(36)}"
        self._created: datetime.datetime | None = None
        self._begun = False
        self._over = False
        self._next_index = 0
        self._open: dict[str, _Open] = {}
        self._inputs: set[str] = set()

    def feed(self, event: Event) -> bytes:
        """The bytes that say this event."""
        if self._over:
            return b""
        match event:
            case ResponseMetadata():
                return self._name(event)
            case TextStart(id=block_id):
                return self._start(block_id, {"type": "model_output"})
            case ReasoningStart(id=block_id):
                return self._start(block_id, {"type": "thought"})
            case ToolInputStart():
                return self._start_call(event)
            case TextDelta(delta=delta, id=block_id):
                return self._delta(block_id, {"text": delta, "type": "text"})
            case ReasoningDelta(delta=delta, id=block_id):
                summary = {"content": {"text": delta, "type": "text"}, "type": "thought_summary"}
                return self._delta(block_id, summary)
            case ToolInputDelta(delta=delta, id=block_id):
                return self._delta(block_id, {"arguments": delta, "type": "arguments_delta"})
            case TextEnd() | ReasoningEnd() | ToolInputEnd():
                return self._end(event)
            case _:
                return self._single(event)

    def close(self) -> bytes:
        """The end of the body; all is said with the finish."""
        self._over = True
        return b""

    def _single(self, event: Event) -> bytes:
        match event:
            case ToolCall():
                return self._call(event)
            case ToolResult():
                return self._result(event)
            case File() | ReasoningFile():
                return self._file(event)
            case Source():
                return self._cite(event)
            case Custom(kind=kind) if kind.startswith(f"{KEY}."):
                return self._whole({"type": kind.removeprefix(f"{KEY}."), **_told(event.provider_metadata)})
            case Error():
                return self._fail(event.error)
            case Finish():
                return self._finish(event)
        return b""

    # blocks

    def _start(self, block_id: str, step: dict[str, Any]) -> bytes:
        opened = self._open[block_id] = _Open(self._next_index, step["type"])
        self._next_index += 1
        return self._begin() + self._write("step.start", index=opened.index, step=step)

    def _start_call(self, event: ToolInputStart) -> bytes:
        """Calls of the vendor's tools come whole, with their call."""
        if event.provider_executed:
            return b""
        self._inputs.add(event.id)
        step = {"id": event.id, "type": "function_call", "name": event.tool_name, "arguments": {}}
        return self._start(event.id, {**step, **_signature(event.provider_metadata)})

    def _delta(self, block_id: str, delta: dict[str, Any]) -> bytes:
        opened = self._open.get(block_id)
        return b"" if opened is None else self._write("step.delta", index=opened.index, delta=delta)

    def _end(self, event: TextEnd | ReasoningEnd | ToolInputEnd) -> bytes:
        if event.incomplete or event.id not in self._open:
            return b""
        out = b""
        signature = _signature(event.provider_metadata)
        if isinstance(event, ReasoningEnd) and signature:
            out = self._delta(event.id, {**signature, "type": "thought_signature"})
        return out + self._write("step.stop", index=self._open.pop(event.id).index)

    def _whole(self, step: dict[str, Any], delta: dict[str, Any] | None = None) -> bytes:
        """A step that opens, grows once and closes."""
        index = self._next_index
        self._next_index += 1
        out = self._begin() + self._write("step.start", index=index, step=step)
        if delta is not None:
            out += self._write("step.delta", index=index, delta=delta)
        return out + self._write("step.stop", index=index)

    # what comes whole

    def _call(self, event: ToolCall) -> bytes:
        if event.tool_call_id in self._inputs:
            return b""
        self._inputs.add(event.tool_call_id)
        arguments = object_text(event.input, key="input")
        if event.provider_executed:
            kind = "mcp_server_tool_call" if event.dynamic else f"{event.tool_name}_call"
            step = {"type": kind, **_told(event.provider_metadata), "id": event.tool_call_id}
            if event.dynamic:
                step["name"] = event.tool_name
            return self._whole(step, {"type": step["type"], "arguments": arguments})
        step = {"id": event.tool_call_id, "type": "function_call", "name": event.tool_name, "arguments": {}}
        step |= _signature(event.provider_metadata)
        return self._whole(step, {"arguments": event.input, "type": "arguments_delta"})

    def _result(self, event: ToolResult) -> bytes:
        """Results of the vendor's tools are steps; others are the next request's."""
        if not event.provider_executed or event.preliminary:
            return b""
        step = {"type": f"{event.tool_name}_result", **_told(event.provider_metadata)}
        step["call_id"] = event.tool_call_id
        delta = {"type": step["type"], "result": event.result}
        return self._whole(step, {**delta, "is_error": True} if event.is_error else delta)

    def _file(self, event: File | ReasoningFile) -> bytes:
        head = event.media_type.partition("/")[0]
        piece: dict[str, Any] = {"mime_type": event.media_type}
        piece["type"] = head if head in ("image", "audio", "video") else "document"
        if isinstance(event.data, bytes):
            piece["data"] = base64.b64encode(event.data).decode()
        else:
            piece["uri"] = event.data
        draft = isinstance(event, ReasoningFile)
        block_id = self._last("thought" if draft else "model_output")
        delta = {"content": piece, "type": "thought_summary"} if draft else piece
        if block_id is not None and piece["type"] != "audio":
            return self._delta(block_id, delta)
        return self._whole({"type": "thought" if draft else "model_output"}, delta)

    def _cite(self, event: Source) -> bytes:
        if event.source_type == "url":
            note: dict[str, Any] = {"type": "url_citation", "url": event.url, "title": event.title}
        else:
            note = {"type": "file_citation", "document_uri": document_uri(event), "file_name": event.title}
        told = {key: value for key, value in note.items() if value is not None}
        delta = {"annotations": [told], "type": "text_annotation_delta"}
        block_id = self._last("model_output")
        return (
            self._delta(block_id, delta)
            if block_id is not None
            else self._whole({"type": "model_output"}, delta)
        )

    def _last(self, kind: str) -> str | None:
        return next((i for i, opened in reversed(self._open.items()) if opened.kind == kind), None)

    # the interaction

    def _name(self, event: ResponseMetadata) -> bytes:
        self._id = event.id or self._id
        self._model = event.model_id or self._model
        self._created = event.timestamp
        return self._begin()

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        created = {} if self._created is None else {"created": self._created.isoformat()}
        interaction = {"id": self._id, "status": "in_progress", "object": "interaction", "model": self._model}
        return self._write("interaction.created", interaction={**interaction, **created}) + self._write(
            "interaction.status_update", interaction_id=self._id, status="in_progress"
        )

    def _fail(self, info: ErrorInfo) -> bytes:
        self._over = True
        code = info.reason or _CODES.get(status_of(info), "internal_error")
        return self._begin() + self._write("error", error={"message": info.message, "code": code})

    def _finish(self, event: Finish) -> bytes:
        if event.finish_reason == "error":
            return self._fail(ErrorInfo("server-error", "the answer ended in an error", retryable=True))
        raw = event.raw_finish_reason
        known = FINISH_REASONS.get(raw or "")
        same = known == event.finish_reason or (event.finish_reason == "tool-calls" and known == "stop")
        told = _told(event.provider_metadata)
        interaction: dict[str, Any] = {
            "id": told.get("interaction_id", self._id),
            "status": raw if same else _STATUS[event.finish_reason],
            "usage": write_usage(event.usage),
        }
        for name in ("service_tier", "continuation_token"):
            if name in told:
                interaction[name] = told[name]
        interaction |= {"object": "interaction", "model": self._model}
        out = self._begin() + self._write("interaction.completed", interaction=interaction)
        self._over = True
        return out + b"event: done\ndata: [DONE]\n\n"

    def _write(self, kind: str, **fields: Any) -> bytes:
        data = msgspec.json.encode({**fields, "event_type": kind})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _told(metadata: Metadata | None) -> dict[str, Any]:
    return dict((metadata or {}).get(KEY, {}))


def _signature(metadata: Metadata | None) -> dict[str, Any]:
    signature = _told(metadata).get("signature")
    return {"signature": signature} if signature else {}
