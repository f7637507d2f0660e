"""Steps of an interaction: opened, grown by deltas and closed, as events."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.decoder import PayloadDecoder, held_size
from llmstream.dialects.gemini_interactions.wire import (
    CONTENT,
    KEY,
    OpenStep,
    Recording,
    WireEvent,
    decode_event,
    is_citation,
    media_of_piece,
    sources_of_annotation,
    sources_of_result,
    step_kind,
)
from llmstream.dialects.google import Sources
from llmstream.dialects.json_text import is_json
from llmstream.dialects.media import base64_bytes
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
from llmstream.framing.sse import SSEDecoder
from llmstream.unique_ids import UniqueIds

__all__ = ["StepDecoder"]

_encode = msgspec.json.Encoder().encode
_SLOT_BYTES: Final = 8
_MEDIA: Final = frozenset({"image", "video", "document"})
_DRAFTS: Final = frozenset({"image", "video", "document", "audio"})


class StepDecoder(PayloadDecoder[WireEvent]):
    """The part of the decoder that knows steps; what stands around them is its subclass's.

    open_steps:    by index, in the order of opening
    client_called: whether the caller has calls to run
    stepped:       whether any step has come
    step_errors:   errors of outputs, as the wire has them
    """

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(
            SSEDecoder(max_bytes=limits.max_event_bytes),
            decode_event,
            provider=provider,
            include_raw=include_raw,
            limits=limits,
        )
        self.open_steps: dict[Hashable, OpenStep] = {}
        self.client_called = False
        self.stepped = False
        self.step_errors: list[dict[str, Any]] = []
        self._new_call_id = new_call_id
        self._used = UniqueIds(hold=self.hold)
        self._settled: set[str] = set()
        self._vendor_calls: dict[str, str] = {}
        self._blocks = 0
        self._sources = Sources(lambda: self._fresh("source"), self.hold)

    def step_start(self, index: Hashable, wire: dict[str, Any] | None) -> None:
        """A step opens; it may bring some of its content."""
        if wire is None or not isinstance(wire.get("type"), str):
            self.defect("a step.start came without a step or its type")
            return
        if index in self.open_steps:
            self.step_stop(index)
        self.stepped = True
        step = OpenStep(step_kind(wire["type"]), dict(wire))
        self.open_steps[index] = step
        self._keep(step, held_size(wire))
        if step.kind == "thought":
            step.id = self._block_id()
            self.out.append(ReasoningStart(step.id))
            for piece in _list(wire.get("summary")):
                self._think(step, piece)
        elif step.kind == "call":
            self._open_call(step)
        elif step.kind == "output":
            self.note_error(wire)
            pieces = _list(wire.get("content")) if step.type == "model_output" else [wire]
            for piece in pieces:
                self._output(step, piece)

    def note_error(self, wire: dict[str, Any]) -> None:
        """An output may hold an error, which the interaction survives or not."""
        if isinstance(wire.get("error"), dict):
            self.step_errors.append(wire["error"])
            self.hold(held_size(wire["error"]))

    def step_delta(self, index: Hashable, delta: dict[str, Any] | None) -> None:
        """A step grows; the deltas of text, which are most of them, go first."""
        step = self.open_steps.get(index)
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

    def step_stop(self, index: Hashable) -> None:
        """A step is over: calls and results are whole."""
        step = self.open_steps.pop(index, None)
        if step is None:
            return
        self.let_go(step.held)
        if step.kind == "output":
            self._end_output(step)
        elif step.kind == "thought":
            self.out.append(ReasoningEnd(step.id, provider_metadata=step.end_metadata))
        elif step.kind == "call":
            self._end_call(step)
        elif step.kind == "vendor-call":
            self._vendor_call(step)
        elif step.kind == "vendor-result":
            self._vendor_result(step)
        elif step.type != "user_input":
            self.out.append(Custom(f"{KEY}.{step.type}", step.rest("type")))

    def break_off(self, index: Hashable) -> None:
        """A call whose end the wire never said is no call."""
        step = self.open_steps.pop(index)
        if step.id:
            self.out.append(ToolInputEnd(step.id, incomplete=True))

    # output and thoughts

    def _output(self, step: OpenStep, piece: dict[str, Any]) -> None:
        kind = piece.get("type")
        text = piece.get("text")
        if isinstance(text, str) and text and kind in ("text", None):
            if not step.id:
                self._open_text(step)
            self.out.append(TextDelta(text, step.id))
        if "annotations" in piece:
            self._annotate(step, piece["annotations"])
        if kind == "text" or not isinstance(kind, str) or kind == "text_annotation_delta":
            return
        if kind in _MEDIA:
            self._file(piece, draft=False)
        elif kind == "audio":
            self._hear(step, piece)
        else:
            told = {key: value for key, value in piece.items() if key != "type"}
            self.out.append(Custom(f"{CONTENT}{kind}", {KEY: told}))

    def _open_text(self, step: OpenStep) -> None:
        step.id = self._block_id()
        self.out.append(TextStart(step.id))

    def _annotate(self, step: OpenStep, annotations: Any) -> None:
        """Annotations become sources; all their fields are metadata at the end of the text."""
        for annotation in _list(annotations):
            step.annotations.append(annotation)
            self._keep(step, held_size(annotation))
            step.unsourced = step.unsourced or not is_citation(annotation)
            self.out.extend(sources_of_annotation(annotation, self._sources))

    def _end_output(self, step: OpenStep) -> None:
        if step.unsourced and not step.id:
            self._open_text(step)  # words of a recording may be annotated, without a text
        if step.id:
            self.out.append(TextEnd(step.id, provider_metadata=step.end_metadata))
        for mime_type, recording in step.audio.items():
            self.out.append(recording.file(mime_type))

    def _think(self, step: OpenStep, piece: dict[str, Any]) -> None:
        """A summary, plain or in a delta around it, or the signature; an empty one erases none."""
        inner = piece.get("content")
        content = inner if isinstance(inner, dict) else piece
        text, signature = content.get("text"), piece.get("signature")
        if isinstance(text, str) and text:
            self.out.append(ReasoningDelta(text, step.id))
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
                self.defect(f"the data of a file is not base64: {error}")
                return
        elif isinstance(uri, str) and ":" in uri:
            made = uri
        else:
            return
        usual = "image/png" if piece.get("type") == "image" else "application/octet-stream"
        media_type, metadata = media_of_piece(piece, usual, inline=isinstance(made, bytes))
        self.out.append((ReasoningFile if draft else File)(media_type, made, metadata))

    def _hear(self, step: OpenStep, piece: dict[str, Any]) -> None:
        """A recording comes in pieces and is whole with its step."""
        data = piece.get("data")
        if not isinstance(data, str) or not data:
            self._file(piece, draft=False)
            return
        mime_type = str(piece.get("mime_type") or next(iter(step.audio), "audio/pcm"))
        recording = step.audio.setdefault(mime_type, Recording())
        told = {key: piece[key] for key in piece if key not in ("type", "data", "mime_type")}
        self._keep(step, sum(held_size(key) for key in told if key not in recording.told))
        recording.told |= told
        try:
            recording.pieces.append(base64_bytes(data))
            self._keep(step, sys.getsizeof(recording.pieces[-1]) + _SLOT_BYTES)
        except ValueError as error:
            self.defect(f"the data of a recording is not base64: {error}")

    # calls of the caller's tools

    def _open_call(self, step: OpenStep) -> None:
        if step.id or not step.name:
            return
        step.id = self._fresh(str(step.wire.get("id") or self._new_call_id()))
        self.out.append(ToolInputStart(step.name, step.id, provider_metadata=step.signature))

    def _grow_call(self, step: OpenStep, delta: dict[str, Any]) -> None:
        """Fragments of text, or what the start did not say yet."""
        for key in ("id", "name", "signature"):
            if delta.get(key):
                step.wire[key] = delta[key]
        given = delta.get("arguments")
        if isinstance(given, dict) and given:
            step.wire["arguments"] = given
        self._open_call(step)
        if not isinstance(given, str) or not given:
            return
        step.inputs.append(given)
        step.size += len(given)
        self._keep(step, sys.getsizeof(given) + _SLOT_BYTES)
        limit = self.limits.max_tool_input_bytes
        if step.size > limit:
            self.fail(LimitExceeded(f"the input of {step.name!r} is longer than {limit} bytes"))
        elif step.id:
            self.out.append(ToolInputDelta(given, step.id))

    def _end_call(self, step: OpenStep) -> None:
        if not step.id:
            self.defect("a function call came without a name. It was left out.")
            return
        given = step.wire.get("arguments")
        if not step.inputs and given not in (None, {}, ""):
            text = given if isinstance(given, str) else _encode(given).decode()
            step.inputs.append(text)
            self.out.append(ToolInputDelta(text, step.id))
        text = "".join(step.inputs) or "{}"
        self.client_called = True
        self.out.append(ToolInputEnd(step.id))
        self.out.append(
            ToolCall(step.name, text, step.id, invalid=not is_json(text), provider_metadata=step.signature)
        )

    # tools that the vendor runs, and steps that only this vendor knows

    def _extend(self, step: OpenStep, delta: dict[str, Any]) -> None:
        """These come whole in one delta, or grow field by field."""
        for name, value in delta.items():
            if name != "type" and value is not None and value != "":
                step.wire[name] = value
                self._keep(step, held_size(name) + held_size(value))

    def _keep(self, step: OpenStep, size: int) -> None:
        step.held += size
        self.hold(size)

    def _vendor_call(self, step: OpenStep) -> None:
        wire_id = str(step.wire.get("id") or "")
        call_id = self._fresh(wire_id or self._new_call_id())
        self._vendor_calls[wire_id] = call_id
        given = step.wire.get("arguments") or {}
        text = given if isinstance(given, str) else _encode(given).decode()
        dynamic = step.type.startswith("mcp_")
        metadata = step.rest("id", "arguments")
        self.out.append(
            ToolInputStart(
                step.name, call_id, provider_executed=True, dynamic=dynamic, provider_metadata=metadata
            )
        )
        self.out.append(ToolInputDelta(text, call_id))
        self.out.append(ToolInputEnd(call_id))
        self.out.append(
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
        if call_id in self._settled:
            self.defect(f"the call {call_id!r} got a second result, which was left out")
            return
        self._settled.add(call_id)
        result = step.wire.get("result")
        failed = step.wire.get("is_error") is True
        metadata = step.rest("call_id", "result", "is_error")
        self.out.append(
            ToolResult(result, call_id, step.name, failed, provider_executed=True, provider_metadata=metadata)
        )
        self.out.extend(sources_of_result(step, self._sources))

    # ids, and what has no place

    def _orphaned(self, index: Hashable, delta: dict[str, Any]) -> OpenStep | None:
        """A step for text that came without one, so that nothing is lost."""
        kind = {"text": "model_output", "thought_summary": "thought"}.get(str(delta.get("type")))
        self.defect(f"a {delta.get('type')} delta came for step {index}, which is not open")
        if kind is None:
            return None
        self.step_start(index, {"type": kind})
        return self.open_steps.get(index)

    def _block_id(self) -> str:
        number, self._blocks = self._blocks, self._blocks + 1
        return self._fresh(str(number))

    def _fresh(self, wish: str) -> str:
        """An id that nothing else in the answer has, as near to the wish as can be."""
        name = self._used.fresh(wish)
        if len(self._used) > self.limits.max_blocks:
            self.fail(LimitExceeded(f"the answer has more than {self.limits.max_blocks} blocks and calls"))
        return name


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
