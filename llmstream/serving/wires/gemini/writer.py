"""Events as the stream that the Gemini API would have sent: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import secrets
from typing import Any, Final

import msgspec

from llmstream.dialects.call_ids import is_minted
from llmstream.dialects.gemini.messages import camel
from llmstream.dialects.gemini.parts import CODE_EXECUTION, KEY, SIDE_FIELDS, TRANSCRIPTION
from llmstream.dialects.gemini.wire import (
    FINISH_REASONS,
    grounding_of,
    is_block_reason,
    raw_reason,
    write_usage,
)
from llmstream.dialects.json_text import object_text
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
    ToolResult,
)
from llmstream.serving.wires.complete_responses import GrowingTexts, sse_objects
from llmstream.serving.wires.google_errors import error_object

__all__ = ["GeminiEventEncoder", "complete_response"]


_NOT_OF_CANDIDATE: Final = ("prompt_feedback", "model_status", "continuations", "earlier_responses")
"""Keys of the finish's metadata that are written elsewhere, or that only the decoder sets."""


class GeminiEventEncoder:
    """Writes one response, a chunk for each event with content.

    A signature that is known when its block opens comes with the text, in one part; one that the
    block's end brings comes on an empty part after it, as the vendor does when it streams.
    Inputs of calls come whole with their call. After an error nothing more is written.
    """

    def __init__(self, model: str, *, vertex: bool) -> None:
        self._model = model
        self._vertex = vertex
        self._response_id = secrets.token_urlsafe(17)
        self._created: str | None = None
        self._over = False
        self._signed: dict[str, list[str]] = {}  # texts of blocks that are signed from the start

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event."""
        if self._over:
            return b""
        match event:
            case TextStart(id=block_id) | ReasoningStart(id=block_id):
                if _beside(event.provider_metadata):
                    self._signed[block_id] = []
                return b""
            case TextDelta(delta=delta) | ReasoningDelta(delta=delta):
                if event.id in self._signed:
                    self._signed[event.id].append(delta)
                    return b""
                thought = _thought(isinstance(event, ReasoningDelta))
                return self._part({"text": delta, **thought, **_beside(event.provider_metadata)})
            case TextEnd() | ReasoningEnd():
                return self._end(event)
            case ToolCall():
                return self._part(self._vendor_call(event) if event.provider_executed else self._call(event))
            case ToolResult():
                return self._result(event)
            case File() | ReasoningFile():
                return self._file(event)
            case Source():
                return self._chunk({"groundingMetadata": grounding_of([event])})
            case Custom(kind=kind) if kind.startswith(f"{KEY}."):
                return self._custom(event)
            case _:
                return self._frame(event)

    def close(self) -> bytes:
        """The end of the body; the wire has no mark for it."""
        self._over = True
        return b""

    def _frame(self, event: Event) -> bytes:
        match event:
            case ResponseMetadata():
                self._response_id = event.id or self._response_id
                self._model = event.model_id or self._model
                self._created = event.timestamp.isoformat() if event.timestamp is not None else None
                status = (event.provider_metadata or {}).get(KEY, {}).get("model_status")
                if status is not None:
                    return self._write(self._named({"modelStatus": status}))
            case ErrorEvent(error=info):
                return self._fail(info)
            case Finish():
                return self._finish(event)
        return b""

    def _end(self, event: TextEnd | ReasoningEnd) -> bytes:
        beside = _beside(event.provider_metadata)
        texts = self._signed.pop(event.id, None)
        if event.incomplete or (texts is None and not beside):
            return b""
        thought = _thought(isinstance(event, ReasoningEnd))
        return self._part({"text": "".join(texts or ()), **thought, **beside})

    def _call(self, event: ToolCall) -> dict[str, Any]:
        args = object_text(event.input, key="input")
        call = {**self._id(event.tool_call_id), "name": event.tool_name, "args": args}
        return {"functionCall": call, **_beside(event.provider_metadata)}

    def _vendor_call(self, event: ToolCall) -> dict[str, Any]:
        own, beside = self._id(event.tool_call_id), _beside(event.provider_metadata)
        args = object_text(event.input, key="code")
        if event.tool_name == CODE_EXECUTION:
            given = msgspec.json.decode(args)
            language = {} if "language" in given else {"language": "PYTHON"}
            return {"executableCode": {**language, **given, **own}, **beside}
        kind = _tool_type(event)
        return {"toolCall": {"toolType": kind, **own, "args": args}, **beside}

    def _result(self, event: ToolResult) -> bytes:
        """Results of the vendor's tools are parts; others are the next request's."""
        if not event.provider_executed or event.preliminary:
            return b""
        own, beside = self._id(event.tool_call_id), _beside(event.provider_metadata)
        if event.tool_name != CODE_EXECUTION:
            response = {"toolType": _tool_type(event), **own, "response": event.result}
            return self._part({"toolResponse": response, **beside})
        given = event.result
        if not isinstance(given, dict):
            outcome = "OUTCOME_FAILED" if event.is_error else "OUTCOME_OK"
            text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            given = {"outcome": outcome, "output": text}
        return self._part({"codeExecutionResult": {**given, **own}, **beside})

    def _file(self, event: File | ReasoningFile) -> bytes:
        blob: dict[str, str] = {"mimeType": event.media_type}
        kind = "inlineData" if isinstance(event.data, bytes) else "fileData"
        if isinstance(event.data, bytes):
            blob["data"] = base64.b64encode(event.data).decode()
        else:
            blob["fileUri"] = event.data
        told = (event.provider_metadata or {}).get(KEY, {})
        if isinstance(told.get("display_name"), str):
            blob["displayName"] = told["display_name"]
        thought = _thought(isinstance(event, ReasoningFile))
        return self._part({kind: blob, **thought, **_beside(event.provider_metadata)})

    def _custom(self, event: Custom) -> bytes:
        told = (event.provider_metadata or {}).get(KEY, {})
        inner = {key: value for key, value in told.items() if key not in SIDE_FIELDS}
        kind = camel(event.kind.removeprefix(f"{KEY}."))
        return self._part({kind: inner, **_beside(event.provider_metadata)})

    def _finish(self, event: Finish) -> bytes:
        self._over = True
        told = (event.provider_metadata or {}).get(KEY, {})
        raw = event.raw_finish_reason
        if event.finish_reason == "error" and FINISH_REASONS.get(raw or "") != "error":
            failed = ErrorInfo("server-error", "the answer ended in an error", retryable=True)
            return self._write(error_object(failed))
        more: dict[str, Any] = {}
        usage = write_usage(event.usage)
        if usage is not None:
            more["usageMetadata"] = usage
        if "model_status" in told:
            more["modelStatus"] = told["model_status"]
        feedback = told.get("prompt_feedback")
        if isinstance(feedback, dict):
            more["promptFeedback"] = feedback
            if is_block_reason(feedback.get("blockReason")):
                return self._write(self._named(more))
        reason = raw_reason(
            "error" if raw and FINISH_REASONS.get(raw) == "error" else event.finish_reason, raw
        )
        rest = {camel(name): value for name, value in told.items() if name not in _NOT_OF_CANDIDATE}
        return self._chunk({"finishReason": reason, **rest}, **more)

    def _fail(self, info: ErrorInfo) -> bytes:
        """Leaves an unusable response to its finish reason, which follows; writes any other error at once."""
        if FINISH_REASONS.get(info.reason or "") == "error":
            return b""
        self._over = True
        return self._write(error_object(info))

    def _id(self, call_id: str) -> dict[str, str]:
        return {} if self._vertex or is_minted(call_id) else {"id": call_id}

    def _part(self, part: dict[str, Any]) -> bytes:
        return self._chunk({}, part)

    def _chunk(self, candidate: dict[str, Any], *parts: dict[str, Any], **more: Any) -> bytes:
        content = {"parts": list(parts) or [{"text": ""}], "role": "model"}  # as the vendor does
        return self._write(
            self._named({"candidates": [{"content": content, **candidate, "index": 0}], **more})
        )

    def _named(self, chunk: dict[str, Any]) -> dict[str, Any]:
        chunk["modelVersion"] = self._model
        if self._created is not None:
            chunk["createTime"] = self._created
        chunk["responseId"] = self._response_id
        return chunk

    def _write(self, chunk: dict[str, Any]) -> bytes:
        return b"data: %b\r\n\r\n" % msgspec.json.encode(chunk)


def _beside(metadata: Metadata | None) -> dict[str, Any]:
    told = (metadata or {}).get(KEY, {})
    return {camel(name): told[name] for name in (*SIDE_FIELDS, TRANSCRIPTION) if name in told}


def _thought(yes: bool) -> dict[str, bool]:
    return {"thought": True} if yes else {}


def _tool_type(event: ToolCall | ToolResult) -> str:
    kind = (event.provider_metadata or {}).get(KEY, {}).get("tool_type")
    return kind if isinstance(kind, str) else event.tool_name.upper()


# Complete responses: one object of generateContent.


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the chunks of a stream make."""
    answer: dict[str, Any] = {}
    candidate = _Candidate()
    found = False
    for chunk in sse_objects(body):
        for one in chunk.pop("candidates", ()):
            found = True
            candidate.feed(one)
        answer |= chunk
    return {"candidates": [candidate.close()], **answer} if found else answer


class _Candidate:
    """The one candidate of an answer: parts of the same text are joined."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._parts: list[dict[str, Any]] = []
        self._fields: dict[str, Any] = {}
        self._grounding: dict[str, Any] = {}

    def feed(self, candidate: dict[str, Any]) -> None:
        for part in candidate.pop("content", {}).get("parts", ()):
            self._part(part)
        self._ground(candidate.pop("groundingMetadata", None) or {})
        self._fields |= candidate

    def close(self) -> dict[str, Any]:
        self._texts.join()
        parts = [part for part in self._parts if part != {"text": ""}] or [{"text": ""}]
        grounding = {"groundingMetadata": self._grounding} if self._grounding else {}
        return {"content": {"parts": parts, "role": "model"}, **self._fields, **grounding}

    def _part(self, part: dict[str, Any]) -> None:
        """A text goes on until a field of its own, such as a signature, ends it."""
        last = self._parts[-1] if self._parts else {}
        same = "text" in last and last.keys() <= {"text", "thought"} and "text" in part
        if same and part.get("thought") == last.get("thought"):
            self._texts.add(last, "text", part["text"])
            last |= {name: value for name, value in part.items() if name != "text"}
        else:
            self._parts.append(part)

    def _ground(self, said: dict[str, Any]) -> None:
        """Lists grow; the places in `groundingChunks` that supports name move with them."""
        before = len(self._grounding.get("groundingChunks", ()))
        for support in said.get("groundingSupports", ()):
            places = support.get("groundingChunkIndices")
            if before and places:
                support["groundingChunkIndices"] = [before + place for place in places]
        for name, value in said.items():
            if isinstance(value, list):
                self._grounding.setdefault(name, []).extend(value)
            else:
                self._grounding[name] = value
