"""Events as the stream that the Interactions API would have sent: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import secrets
from collections import Counter
from typing import Any, Final

import msgspec

from llmstream.dialects.gemini_interactions.wire import CONTENT, FINISH_REASONS, KEY, is_citation, write_usage
from llmstream.dialects.google import document_uri
from llmstream.dialects.json_text import object_text
from llmstream.dialects.media import sampling_of, without_sampling
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
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
from llmstream.serving.wires.complete_responses import GrowingTexts, json_input, sse_objects
from llmstream.serving.wires.google_errors import status_of

__all__ = ["InteractionsEventEncoder", "complete_response"]


_STATUS: Final = {
    "stop": "completed",
    "tool-calls": "requires_action",
    "length": "incomplete",
    "content-filter": "incomplete",
    "error": "failed",
    "other": "cancelled",
    "unknown": "completed",
}
_OF_INTERACTION: Final = ("service_tier", "environment_id", "agent", "errors", "continuation_token")
"""What the metadata of finish holds that stands in the interaction under the same name."""

_CODES: Final = {
    400: "invalid_request",
    401: "authentication_error",
    403: "permission_denied",
    404: "not_found",
    429: "rate_limit_exceeded",
    503: "service_unavailable",
    504: "gateway_timeout",
}


_encode: Final = msgspec.json.Encoder().encode


@dataclasses.dataclass(slots=True)
class _Open:
    """A step that has been begun.

    noted:   the annotations that are written, as JSON
    pending: those of sources that wait for the next delta, or for the end to say them in order
    """

    index: int
    kind: str
    noted: Counter[bytes] = dataclasses.field(default_factory=Counter)
    pending: list[Any] = dataclasses.field(default_factory=list)


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
        """Returns the bytes of one event."""
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
        """Ends the body; everything was written with the finish."""
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
            case Custom(kind=kind) if kind.startswith(CONTENT):
                return self._content({"type": kind.removeprefix(CONTENT), **_told(event.provider_metadata)})
            case Custom(kind=kind) if kind.startswith(f"{KEY}."):
                return self._whole({"type": kind.removeprefix(f"{KEY}."), **_told(event.provider_metadata)})
            case ErrorEvent():
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
        """Opens a step; calls of the vendor's tools are written at once, with their call event."""
        if event.provider_executed:
            return b""
        self._inputs.add(event.id)
        step = {"id": event.id, "type": "function_call", "name": event.tool_name, "arguments": {}}
        return self._start(event.id, {**step, **_signature(event.provider_metadata)})

    def _delta(self, block_id: str, delta: dict[str, Any]) -> bytes:
        opened = self._open.get(block_id)
        if opened is None:
            return b""
        pending, opened.pending = opened.pending, []
        return self._note(opened, pending) + self._write("step.delta", index=opened.index, delta=delta)

    def _note(self, opened: _Open, notes: list[Any]) -> bytes:
        if not notes:
            return b""
        opened.noted.update(map(_encode, notes))
        delta: dict[str, Any] = {"annotations": notes, "type": "text_annotation_delta"}
        if opened.kind == "thought":
            content = {"text": "", "type": "text", "annotations": notes}
            delta = {"content": content, "type": "thought_summary"}
        return self._write("step.delta", index=opened.index, delta=delta)

    def _end(self, event: TextEnd | ReasoningEnd | ToolInputEnd) -> bytes:
        if event.incomplete or event.id not in self._open:
            return b""
        out = b""
        signature = _signature(event.provider_metadata)
        if not isinstance(event, ToolInputEnd):
            out = self._annotate(event)
        if isinstance(event, ReasoningEnd) and signature:
            out += self._delta(event.id, {**signature, "type": "thought_signature"})
        return out + self._write("step.stop", index=self._open.pop(event.id).index)

    def _annotate(self, event: TextEnd | ReasoningEnd) -> bytes:
        """Metadata at the end of a text that no delta has reported."""
        opened = self._open[event.id]
        told = _told(event.provider_metadata).get("annotations")
        notes = list(told) if isinstance(told, list) else []
        known = set(map(_encode, notes))
        rest = [note for note in opened.pending if _encode(note) not in known]
        opened.pending = []
        written = opened.noted.copy()
        for note in notes:
            key = _encode(note)
            written[key] -= 1
            if written[key] < 0:
                rest.append(note)
        return self._note(opened, rest)

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
        piece: dict[str, Any] = {"mime_type": without_sampling(event.media_type)}
        piece["type"] = head if head in ("image", "audio", "video") else "document"
        if isinstance(event.data, bytes):
            piece["data"] = base64.b64encode(event.data).decode()
        else:
            piece["uri"] = event.data
        piece = {**_told(event.provider_metadata), **piece, **sampling_of(event.media_type)}
        if isinstance(event, ReasoningFile):
            return self._into("thought", {"content": piece, "type": "thought_summary"})
        return self._content(piece)

    def _content(self, piece: dict[str, Any]) -> bytes:
        """A delta of an output; audio is a step of its own."""
        if piece["type"] == "audio":
            return self._whole({"type": "model_output"}, piece)
        return self._into("model_output", piece)

    def _into(self, kind: str, delta: dict[str, Any]) -> bytes:
        """A delta of the last step of a kind that is open, or of one of its own."""
        block_id = self._last(kind)
        return self._whole({"type": kind}, delta) if block_id is None else self._delta(block_id, delta)

    def _cite(self, event: Source) -> bytes:
        """The annotation that a source was made of, or an equivalent one."""
        note = _told(event.provider_metadata)
        if not is_citation(note):
            note = {"type": "url_citation", "url": event.url, "title": event.title}
            if event.source_type == "document":
                note = {
                    "type": "file_citation",
                    "document_uri": document_uri(event),
                    "file_name": event.title,
                }
            note = {key: value for key, value in note.items() if value is not None}
        block_id = self._last("model_output")
        if block_id is None:
            return self._whole(
                {"type": "model_output"}, {"annotations": [note], "type": "text_annotation_delta"}
            )
        self._open[block_id].pending.append(note)
        return b""

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
        interaction |= {name: told[name] for name in _OF_INTERACTION if name in told}
        interaction |= {"object": "interaction", "model": self._model}
        out = self._begin() + self._write("interaction.completed", interaction=interaction)
        self._over = True
        return out + b"event: done\ndata: [DONE]\n\n"

    def _write(self, kind: str, **fields: Any) -> bytes:
        data = _encode({**fields, "event_type": kind})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _told(metadata: Metadata | None) -> dict[str, Any]:
    return dict((metadata or {}).get(KEY, {}))


def _signature(metadata: Metadata | None) -> dict[str, Any]:
    signature = _told(metadata).get("signature")
    return {"signature": signature} if signature else {}


# Complete responses: one `interaction` object.

_PIECES: Final = frozenset({"text", "image", "audio", "video", "document"})


def complete_response(body: bytes) -> dict[str, Any]:
    """The interaction with its steps."""
    interaction: dict[str, Any] = {}
    steps: dict[int, _Step] = {}
    for event in sse_objects(body):
        if isinstance(named := event.get("interaction"), dict):
            interaction |= named
        elif event["event_type"] == "step.start":
            steps[event["index"]] = _Step(event["step"])
        elif event["event_type"] == "step.delta":
            steps[event["index"]].grow(event["delta"])
    return {**interaction, "steps": [step.close() for step in steps.values()]}


class _Step:
    """One step: the fields of its start, extended by its deltas."""

    def __init__(self, step: dict[str, Any]) -> None:
        self._texts = GrowingTexts()
        self._step = step
        self._arguments: list[str] = []
        self._list = {"thought": "summary", "model_output": "content"}.get(step["type"])
        self._pieces: list[dict[str, Any]] = []

    def grow(self, delta: dict[str, Any]) -> None:
        kind = delta.pop("type")
        if kind == "thought_summary":
            self._piece(delta["content"])
        elif self._list == "content" and kind in _PIECES:
            self._piece({"type": kind, **delta})
        elif kind == "text_annotation_delta":
            self._piece({"type": "text", "text": "", **delta})
        elif kind == "arguments_delta":
            self._arguments.append(delta["arguments"])
        else:
            self._step |= delta

    def close(self) -> dict[str, Any]:
        """The step as it stands in an interaction."""
        self._texts.join()
        if self._list is not None and self._pieces:
            self._step[self._list] = self._pieces
        if self._arguments:
            self._step["arguments"] = json_input("".join(self._arguments))
        return self._step

    def _piece(self, piece: dict[str, Any]) -> None:
        """Fragments of a text are joined, with their annotations."""
        last = self._pieces[-1] if self._pieces else {}
        if piece["type"] != "text" or last.get("type") != "text":
            self._pieces.append(piece)
            return
        self._texts.add(last, "text", piece["text"])
        if notes := piece.get("annotations"):
            last.setdefault("annotations", []).extend(notes)
