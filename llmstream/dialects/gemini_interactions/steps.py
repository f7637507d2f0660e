"""Maps the steps of an interaction to events: opened, extended by deltas, and closed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.gemini_interactions.wire import (
    CONTENT,
    KEY,
    OpenStep,
    Recording,
    is_citation,
    media_of_piece,
    sources_of_annotation,
    sources_of_result,
    step_kind,
)
from llmstream.dialects.google import Sources
from llmstream.dialects.json_text import is_json
from llmstream.dialects.media import base64_bytes
from llmstream.dialects.payload_size import held_size
from llmstream.dialects.wire_values import objects_in
from llmstream.errors import LimitExceeded
from llmstream.events import (
    Custom,
    File,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.unique_ids import UniqueIds

__all__ = ["Steps"]

_encode = msgspec.json.Encoder().encode
# A pointer in a list of CPython.
_SLOT_BYTES: Final = 8
_MEDIA: Final = frozenset({"image", "video", "document"})
_DRAFTS: Final = frozenset({"image", "video", "document", "audio"})


class Steps:
    """The steps of one response.

    reader:        the decoder; events go to its `out`
    new_call_id:   makes the ids of calls that come without one

    open:          open steps by index, in the order of opening
    client_called: whether the caller has calls to run
    has_step:      whether a step of the current interaction has arrived
    errors:        errors of outputs, as the wire has them
    settled:       ids of the vendor's calls that have their results
    """

    def __init__(self, reader: PayloadDecoder[Any], new_call_id: Callable[[], str]) -> None:
        self.open: dict[Hashable, OpenStep] = {}
        self.client_called = False
        self.has_step = False
        self.errors: list[dict[str, Any]] = []
        self.settled: set[str] = set()
        self._reader = reader
        self._new_call_id = new_call_id
        self._ids = UniqueIds(hold=reader.hold)
        self._vendor_calls: dict[str, str] = {}
        self._blocks = 0
        self._sources = Sources(lambda: self._fresh_id("source"), reader.hold)

    def release(self) -> None:
        """Frees the sources, which get their ids here."""
        del self._sources

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all blocks, calls and sources so far."""
        return self._ids.names()

    def start(self, index: Hashable, wire: dict[str, Any] | None) -> None:
        """Opens a step, which may already have some of its content."""
        if wire is None or not isinstance(wire.get("type"), str):
            self._reader.defect("a step.start came without a step or its type")
            return
        # An index that comes again without a stop ends the step before it.
        if index in self.open:
            self.stop(index)
        self.has_step = True
        step = OpenStep(step_kind(wire["type"]), dict(wire))
        self.open[index] = step
        self._retain(step, self._reader.held_of(wire))
        if step.kind == "thought":
            step.id = self._block_id()
            self._reader.out.append(ReasoningStart(step.id))
            for piece in objects_in(wire.get("summary")):
                self._think(step, piece)
        elif step.kind == "call":
            self._open_call(step)
        elif step.kind == "output":
            self.note_error(wire)
            pieces = objects_in(wire.get("content")) if step.type == "model_output" else [wire]
            for piece in pieces:
                self._output(step, piece)

    def note_error(self, wire: dict[str, Any]) -> None:
        """Stores the error of an output. The interaction may fail because of it, or continue."""
        if isinstance(wire.get("error"), dict):
            self.errors.append(wire["error"])
            self._reader.hold(held_size(wire["error"]))

    def delta(self, index: Hashable, delta: dict[str, Any] | None) -> None:
        """Adds a delta to a step. Most deltas are text, which is checked first."""
        step = self.open.get(index)
        if delta is None:
            return
        if step is None:
            step = self._orphaned(index, delta)
            if step is None:
                return
        if step.kind == "output":
            self._output(step, delta)
        elif step.kind == "thought":
            self._think(step, delta)
        elif step.kind == "call":
            self._grow_call(step, delta)
        else:
            self._extend(step, delta)

    def stop(self, index: Hashable, *, is_known_json: bool = False) -> None:
        """Closes a step: calls and results are complete.

        is_known_json: the input of the call was parsed, and is not parsed again
        """
        step = self.open.pop(index, None)
        if step is None:
            return
        self._reader.let_go(step.held)
        if step.kind == "output":
            self._end_output(step)
        elif step.kind == "thought":
            self._reader.out.append(ReasoningEnd(step.id, provider_metadata=step.end_metadata))
        elif step.kind == "call":
            self._end_call(step, is_known_json=is_known_json)
        elif step.kind == "vendor-call":
            self._vendor_call(step)
        elif step.kind == "vendor-result":
            self._vendor_result(step)
        elif step.type != "user_input":
            self._reader.out.append(Custom(f"{KEY}.{step.type}", step.rest("type")))

    def break_off(self, index: Hashable) -> None:
        """Drops a call that has not ended."""
        step = self.open.pop(index)
        if step.id:
            self._reader.out.append(ToolInputEnd(step.id, incomplete=True))

    # Outputs and thoughts.

    def _output(self, step: OpenStep, piece: dict[str, Any]) -> None:
        kind = piece.get("type")
        text = piece.get("text")
        if isinstance(text, str) and text and kind in ("text", None):
            if not step.id:
                self._open_text(step)
            self._reader.out.append(TextDelta(text, step.id))
        if "annotations" in piece:
            self._annotate(step, piece["annotations"])
        if kind == "text" or not isinstance(kind, str) or kind == "text_annotation_delta":
            return
        if kind in _MEDIA:
            self._file(piece, draft=False)
        elif kind == "audio":
            self._gather_audio(step, piece)
        else:
            fields = {key: value for key, value in piece.items() if key != "type"}
            self._reader.out.append(Custom(f"{CONTENT}{kind}", {KEY: fields}))

    def _open_text(self, step: OpenStep) -> None:
        step.id = self._block_id()
        self._reader.out.append(TextStart(step.id))

    def _annotate(self, step: OpenStep, annotations: Any) -> None:
        """Emits annotations as sources; all their fields become metadata of the end of the text."""
        for annotation in objects_in(annotations):
            step.annotations.append(annotation)
            self._retain(step, held_size(annotation))
            step.unsourced = step.unsourced or not is_citation(annotation)
            self._reader.out.extend(sources_of_annotation(annotation, self._sources))

    def _end_output(self, step: OpenStep) -> None:
        if step.unsourced and not step.id:
            # The transcript of a recording may have annotations, without any text.
            self._open_text(step)
        if step.id:
            self._reader.out.append(TextEnd(step.id, provider_metadata=step.end_metadata))
        for mime_type, recording in step.audio.items():
            self._reader.out.append(recording.file(mime_type))

    def _think(self, step: OpenStep, piece: dict[str, Any]) -> None:
        """Reads a piece of a summary, plain or inside a delta, or the signature."""
        inner = piece.get("content")
        content = inner if isinstance(inner, dict) else piece
        text, signature = content.get("text"), piece.get("signature")
        if isinstance(text, str) and text:
            self._reader.out.append(ReasoningDelta(text, step.id))
        elif str(content.get("type")) in _DRAFTS:
            self._file(content, draft=True)
        if "annotations" in content:
            self._annotate(step, content["annotations"])
        if isinstance(signature, str) and signature:
            step.wire["signature"] = signature

    def _file(self, piece: dict[str, Any], *, draft: bool) -> None:
        data, uri = piece.get("data"), piece.get("uri")
        made: bytes | str
        if isinstance(data, str) and data:
            try:
                made = base64_bytes(data)
            except ValueError as error:
                self._reader.defect(f"the data of a file is not base64: {error}")
                return
        elif isinstance(uri, str) and ":" in uri:
            made = uri
        else:
            return
        usual = "image/png" if piece.get("type") == "image" else "application/octet-stream"
        media_type, metadata = media_of_piece(piece, usual, inline=isinstance(made, bytes))
        self._reader.out.append((ReasoningFile if draft else File)(media_type, made, metadata))

    def _gather_audio(self, step: OpenStep, piece: dict[str, Any]) -> None:
        """Stores a piece of a recording, which is complete at the end of its step."""
        data = piece.get("data")
        if not isinstance(data, str) or not data:
            self._file(piece, draft=False)
            return
        mime_type = str(piece.get("mime_type") or next(iter(step.audio), "audio/pcm"))
        recording = step.audio.setdefault(mime_type, Recording())
        fields = {key: piece[key] for key in piece if key not in ("type", "data", "mime_type")}
        self._retain(step, sum(held_size(key) for key in fields if key not in recording.fields))
        recording.fields |= fields
        try:
            recording.pieces.append(base64_bytes(data))
            self._retain(step, sys.getsizeof(recording.pieces[-1]) + _SLOT_BYTES)
        except ValueError as error:
            self._reader.defect(f"the data of a recording is not base64: {error}")

    # Calls of the caller's tools.

    def _open_call(self, step: OpenStep) -> None:
        if step.id or not (name := step.name):
            return
        # Some calls have no id, and a name may come in a later delta.
        step.id = self._fresh_id(str(step.wire.get("id") or self._new_call_id()))
        self._reader.out.append(ToolInputStart(name, step.id, provider_metadata=step.signature))

    def _grow_call(self, step: OpenStep, delta: dict[str, Any]) -> None:
        """Adds a fragment of the input, or fields that the start omitted."""
        for key in ("id", "name", "signature"):
            if delta.get(key):
                step.wire[key] = delta[key]
        given = delta.get("arguments")
        if isinstance(given, dict) and given:
            step.wire["arguments"] = given
        self._open_call(step)
        if isinstance(given, str) and given:
            self.grow(step, given)

    def grow(self, step: OpenStep, given: str) -> None:
        """Adds a fragment of the input of a call."""
        step.parts.append(given)
        self._reader.count(step)
        limit = self._reader.limits.max_tool_input_bytes
        if step.size > limit:
            self._reader.fail(LimitExceeded(f"the input of {step.name!r} is longer than {limit} bytes"))
        elif step.id:
            self._reader.out.append(ToolInputDelta(given, step.id))

    def _end_call(self, step: OpenStep, *, is_known_json: bool) -> None:
        if not step.id:
            self._reader.defect("a function call came without a name. It was left out.")
            return
        given = step.wire.get("arguments")
        # Arguments may come complete in the start, as an object.
        if not step.parts and given not in (None, {}, ""):
            text = given if isinstance(given, str) else _encode(given).decode()
            step.parts.append(text)
            self._reader.out.append(ToolInputDelta(text, step.id))
        text = "".join(step.parts) or "{}"
        self.client_called = True
        self._reader.out.append(ToolInputEnd(step.id))
        invalid = not (is_known_json or is_json(text))
        self._reader.out.append(ToolCall(step.name, text, step.id, False, False, invalid, step.signature))

    # Tools that the vendor runs, and steps that only this vendor knows.

    def _extend(self, step: OpenStep, delta: dict[str, Any]) -> None:
        """Stores the fields of a delta: such steps come complete in one, or field by field."""
        for name, value in delta.items():
            if name != "type" and value is not None and value != "":
                step.wire[name] = value
                self._retain(step, held_size(name) + held_size(value))

    def _retain(self, step: OpenStep, size: int) -> None:
        step.held += size
        self._reader.hold(size)

    def _vendor_call(self, step: OpenStep) -> None:
        wire_id = str(step.wire.get("id") or "")
        call_id = self._fresh_id(wire_id or self._new_call_id())
        self._vendor_calls[wire_id] = call_id
        given = step.wire.get("arguments") or {}
        text = given if isinstance(given, str) else _encode(given).decode()
        dynamic = step.type.startswith("mcp_")
        metadata = step.rest("id", "arguments")
        self._reader.out.append(
            ToolInputStart(
                step.name, call_id, provider_executed=True, dynamic=dynamic, provider_metadata=metadata
            )
        )
        self._reader.out.append(ToolInputDelta(text, call_id))
        self._reader.out.append(ToolInputEnd(call_id))
        self._reader.out.append(
            ToolCall(
                step.name,
                text,
                call_id,
                provider_executed=True,
                dynamic=dynamic,
                provider_metadata=metadata,
            )
        )

    def _vendor_result(self, step: OpenStep) -> None:
        wire_id = str(step.wire.get("call_id") or "")
        call_id = self._vendor_calls.get(wire_id) or wire_id or self._new_call_id()
        if call_id in self.settled:
            self._reader.defect(f"the call {call_id!r} has a second result, which was ignored")
            return
        self.settled.add(call_id)
        result = step.wire.get("result")
        failed = step.wire.get("is_error") is True
        metadata = step.rest("call_id", "result", "is_error")
        self._reader.out.append(
            ToolResult(result, call_id, step.name, failed, provider_executed=True, provider_metadata=metadata)
        )
        self._reader.out.extend(sources_of_result(step, self._sources))

    # Ids, and deltas without a step.

    def _orphaned(self, index: Hashable, delta: dict[str, Any]) -> OpenStep | None:
        """Opens a step for text without one, so that it is not lost."""
        kind = {"text": "model_output", "thought_summary": "thought"}.get(str(delta.get("type")))
        self._reader.defect(f"a {delta.get('type')} delta came for step {index}, which is not open")
        if kind is None:
            return None
        self.start(index, {"type": kind})
        return self.open.get(index)

    def _block_id(self) -> str:
        number, self._blocks = self._blocks, self._blocks + 1
        return self._fresh_id(str(number))

    def _fresh_id(self, wanted: str) -> str:
        """Returns an id that is unique in the response: the wanted one, else one derived from it."""
        name = self._ids.fresh(wanted)
        if len(self._ids) > self._reader.limits.max_blocks:
            self._reader.fail(
                LimitExceeded(f"the answer has more than {self._reader.limits.max_blocks} blocks and calls")
            )
        return name
