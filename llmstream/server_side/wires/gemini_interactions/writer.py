"""Writes events as a stream of the Interactions API: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import itertools
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
    ErrorEvent,
    File,
    Finish,
    FinishReason,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ResponseMetadata,
    Source,
    TextDelta,
    TextStart,
    ToolCall,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.server_side.wires.errors import google_status
from llmstream.server_side.wires.event_writer import (
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    json_input,
    sse_event,
    sse_objects,
)

__all__ = ["InteractionsShapes", "complete_response"]


_STATUS: Final[dict[FinishReason, str]] = {
    "stop": "completed",
    "tool-calls": "requires_action",
    "length": "incomplete",
    "content-filter": "incomplete",
    "other": "cancelled",
    "unknown": "completed",
}

# Metadata of the finish that is written into the interaction, under the same name.
_OF_INTERACTION: Final = ("service_tier", "environment_id", "agent", "errors", "continuation_token")

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
class Step(Block):
    """An open step.

    kind:    on the wire, such as "model_output"
    written: annotations that are written, as JSON
    waiting: annotations of sources, written with the next delta, or at the end in the order given there
    """

    kind: str = ""
    written: Counter[bytes] = dataclasses.field(default_factory=Counter)
    waiting: list[Any] = dataclasses.field(default_factory=list)


class InteractionsShapes(Shapes[Step]):
    """Numbered steps between `interaction.created` and `interaction.completed`."""

    key = KEY
    # An error does not come first either: it belongs to an interaction.
    begins_at = (ResponseMetadata, ErrorEvent, Finish)

    def __init__(self, model: str) -> None:
        self._model = model
        # The prefix of the vendor's ids.
        self._id = f"v1_{secrets.token_urlsafe(36)}"
        self._created: datetime.datetime | None = None
        self._indexes = itertools.count()

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores id, model and time of the interaction."""
        self._id = event.id or self._id
        self._model = event.model_id or self._model
        self._created = event.timestamp
        return b""

    def begin(self) -> bytes:
        """Writes the interaction as it is at its start."""
        created = {} if self._created is None else {"created": self._created.isoformat()}
        interaction = {"id": self._id, "status": "in_progress", "object": "interaction", "model": self._model}
        update = {"interaction_id": self._id, "status": "in_progress"}
        return _write("interaction.created", interaction={**interaction, **created}) + _write(
            "interaction.status_update", **update
        )

    def start(self, event: Start) -> tuple[Step, bytes] | None:
        """Opens a step. A call of the vendor's tool is written in one piece, by `call`."""
        if not isinstance(event, ToolInputStart):
            return self._open({"type": "model_output" if isinstance(event, TextStart) else "thought"})
        if event.provider_executed:
            return None
        step = {"id": event.id, "type": "function_call", "name": event.tool_name, "arguments": {}}
        return self._open({**step, **self._signature(event.provider_metadata)})

    def delta(self, block: Step, event: Delta) -> bytes:
        """Extends a step."""
        if isinstance(event, TextDelta):
            return self._grow(block, {"text": event.delta, "type": "text"})
        if isinstance(event, ReasoningDelta):
            content = {"text": event.delta, "type": "text"}
            return self._grow(block, {"content": content, "type": "thought_summary"})
        return self._grow(block, {"arguments": event.delta, "type": "arguments_delta"})

    def end(self, block: Step, event: End) -> bytes:
        """Closes a step."""
        out = b""
        signature = self._signature(event.provider_metadata)
        if not isinstance(event, ToolInputEnd):
            annotations = self.own(event.provider_metadata).get("annotations")
            out = self._annotate_rest(block, annotations if isinstance(annotations, list) else [])
        if isinstance(event, ReasoningEnd) and signature:
            out += self._grow(block, {**signature, "type": "thought_signature"})
        return out + _write("step.stop", index=block.index)

    def call(self, event: ToolCall) -> bytes | None:
        """Writes a call of the vendor's tool in one piece."""
        if not event.provider_executed:
            return None
        kind = "mcp_server_tool_call" if event.dynamic else f"{event.tool_name}_call"
        step = {"type": kind, **self.own(event.provider_metadata), "id": event.tool_call_id}
        if event.dynamic:
            step["name"] = event.tool_name
        arguments = object_text(event.input, key="input")
        return self._in_one_piece(step, {"type": step["type"], "arguments": arguments})

    def result(self, event: ToolResult) -> bytes:
        """Writes the result of the vendor's tool as a step of its own."""
        step = {"type": f"{event.tool_name}_result", **self.own(event.provider_metadata)}
        step["call_id"] = event.tool_call_id
        delta = {"type": step["type"], "result": event.result}
        return self._in_one_piece(step, {**delta, "is_error": True} if event.is_error else delta)

    def part(self, event: Part, block: Step | None) -> bytes:
        """Writes a citation, a file, or a step or content that only this vendor has."""
        own = self.own(event.provider_metadata)
        if isinstance(event, Source):
            return self._cite(event, block)
        if isinstance(event, File | ReasoningFile):
            return self._file(event, block)
        if event.kind.startswith(CONTENT):
            return self._content({"type": event.kind.removeprefix(CONTENT), **own}, block)
        if event.kind.startswith(f"{KEY}."):
            return self._in_one_piece({"type": event.kind.removeprefix(f"{KEY}."), **own})
        return b""

    def ends_at(self, error: ErrorInfo) -> bool:
        """The vendor closes the stream at any error."""
        return True

    def error(self, error: ErrorInfo) -> bytes:
        """Writes an `error` event."""
        code = error.reason or _CODES.get(google_status(error), "internal_error")
        return _write("error", error={"message": error.message, "code": code})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes the completed interaction."""
        if event.finish_reason == "error":
            return None
        own = self.own(event.provider_metadata)
        interaction: dict[str, Any] = {
            "id": own.get("interaction_id", self._id),
            "status": _status(event),
            "usage": write_usage(event.usage),
        }
        interaction |= {name: own[name] for name in _OF_INTERACTION if name in own}
        interaction |= {"object": "interaction", "model": self._model}
        # The end mark has a name here, unlike OpenAI's.
        return _write("interaction.completed", interaction=interaction) + b"event: done\ndata: [DONE]\n\n"

    def _file(self, event: File | ReasoningFile, block: Step | None) -> bytes:
        kind = event.media_type.partition("/")[0]
        piece: dict[str, Any] = {"mime_type": without_sampling(event.media_type)}
        piece["type"] = kind if kind in ("image", "audio", "video") else "document"
        if isinstance(event.data, bytes):
            piece["data"] = base64.b64encode(event.data).decode()
        else:
            piece["uri"] = event.data
        piece = {**self.own(event.provider_metadata), **piece, **sampling_of(event.media_type)}
        if isinstance(event, File):
            return self._content(piece, block)
        return self._grow_or_open("thought", {"content": piece, "type": "thought_summary"}, block)

    def _content(self, piece: dict[str, Any], block: Step | None) -> bytes:
        """Writes a piece of output. Audio is always a step of its own."""
        return self._grow_or_open("model_output", piece, None if piece["type"] == "audio" else block)

    def _cite(self, event: Source, block: Step | None) -> bytes:
        """Writes the annotation that a source was made of, or an equivalent one."""
        annotation = self.own(event.provider_metadata)
        if not is_citation(annotation):
            annotation = {"type": "url_citation", "url": event.url, "title": event.title}
            if event.source_type == "document":
                uri = document_uri(event)
                annotation = {"type": "file_citation", "document_uri": uri, "file_name": event.title}
            annotation = {key: value for key, value in annotation.items() if value is not None}
        if block is not None:
            block.waiting.append(annotation)
            return b""
        delta = {"annotations": [annotation], "type": "text_annotation_delta"}
        return self._in_one_piece({"type": "model_output"}, delta)

    def _annotate(self, step: Step, annotations: list[Any]) -> bytes:
        if not annotations:
            return b""
        step.written.update(map(_encode, annotations))
        delta: dict[str, Any] = {"annotations": annotations, "type": "text_annotation_delta"}
        if step.kind == "thought":
            content = {"text": "", "type": "text", "annotations": annotations}
            delta = {"content": content, "type": "thought_summary"}
        return _write("step.delta", index=step.index, delta=delta)

    def _annotate_rest(self, step: Step, annotations: list[Any]) -> bytes:
        """Writes annotations of the end that no delta had, and those of other sources first.

        Counted, because an annotation may occur twice.
        """
        known = set(map(_encode, annotations))
        rest = [annotation for annotation in step.waiting if _encode(annotation) not in known]
        written = step.written.copy()
        for annotation in annotations:
            key = _encode(annotation)
            written[key] -= 1
            if written[key] < 0:
                rest.append(annotation)
        step.waiting = []
        return self._annotate(step, rest)

    def _open(self, content: dict[str, Any]) -> tuple[Step, bytes]:
        step = Step(next(self._indexes), content["type"])
        return step, _write("step.start", index=step.index, step=content)

    def _grow(self, step: Step, delta: dict[str, Any]) -> bytes:
        waiting, step.waiting = step.waiting, []
        return self._annotate(step, waiting) + _write("step.delta", index=step.index, delta=delta)

    def _in_one_piece(self, content: dict[str, Any], delta: dict[str, Any] | None = None) -> bytes:
        step, out = self._open(content)
        if delta is not None:
            out += self._grow(step, delta)
        return out + _write("step.stop", index=step.index)

    def _grow_or_open(self, kind: str, delta: dict[str, Any], step: Step | None) -> bytes:
        """Writes a delta of an open step, or else a step of its own."""
        return self._in_one_piece({"type": kind}, delta) if step is None else self._grow(step, delta)

    def _signature(self, metadata: Metadata | None) -> dict[str, Any]:
        signature = self.own(metadata).get("signature")
        return {"signature": signature} if signature else {}


def _status(event: Finish) -> str:
    """Returns the original status if it still applies. Names of other vendors would be no status."""
    reason, raw = event.finish_reason, event.raw_finish_reason or ""
    meant = FINISH_REASONS.get(raw)
    # The vendor may report "completed" although there are calls.
    return raw if meant == reason or (reason == "tool-calls" and meant == "stop") else _STATUS[reason]


def _write(kind: str, **fields: Any) -> bytes:
    return sse_event(kind, {**fields, "event_type": kind})


# Complete responses: one `interaction` object.

_PIECES: Final = frozenset({"text", "image", "audio", "video", "document"})


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the interaction, with its steps, from the events of a stream."""
    interaction: dict[str, Any] = {}
    steps: dict[int, _Step] = {}
    for event in sse_objects(body):
        if isinstance(found := event.get("interaction"), dict):
            interaction |= found
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
        """Returns the complete step."""
        self._texts.join()
        if self._list is not None and self._pieces:
            self._step[self._list] = self._pieces
        if self._arguments:
            self._step["arguments"] = json_input("".join(self._arguments))
        return self._step

    def _piece(self, piece: dict[str, Any]) -> None:
        """Adds a piece, or joins it to a text, with its annotations."""
        last = self._pieces[-1] if self._pieces else {}
        if piece["type"] != "text" or last.get("type") != "text":
            self._pieces.append(piece)
            return
        self._texts.add(last, "text", piece["text"])
        if notes := piece.get("annotations"):
            last.setdefault("annotations", []).extend(notes)
