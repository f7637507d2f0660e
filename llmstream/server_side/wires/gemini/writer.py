"""Writes events as a stream of the Gemini API: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import dataclasses
import secrets
from typing import Any, Final

import msgspec

from llmstream.dialects.gemini.messages import camel
from llmstream.dialects.gemini.wire import (
    CODE_EXECUTION,
    FINISH_REASONS,
    grounding_of,
    is_block_reason,
    raw_reason,
    write_usage,
)
from llmstream.dialects.google import KEY, SIDE_FIELDS, TRANSCRIPTION
from llmstream.dialects.history_parts import is_minted
from llmstream.dialects.json_text import object_text
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    Finish,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ResponseMetadata,
    Source,
    ToolCall,
    ToolInputStart,
    ToolResult,
)
from llmstream.server_side.wires.errors import google_error_object
from llmstream.server_side.wires.event_writer import (
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    sse_objects,
)

__all__ = ["GeminiShapes", "complete_response"]


# Keys of the finish's metadata that are written elsewhere, or that only the decoder sets.
_NOT_OF_CANDIDATE: Final = ("prompt_feedback", "model_status", "continuations", "earlier_responses")


@dataclasses.dataclass(slots=True)
class TextBlock(Block):
    """An open text or reasoning; signed: its deltas so far, if its start has a signature."""

    signed: list[str] | None = None


class GeminiShapes(Shapes[TextBlock]):
    """A chunk for each event with content.

    A signature at the start of a block is written with its complete text, in one part. A signature at the
    end of a block is written in an empty part after it, as the vendor does when it streams.
    """

    key = KEY

    def __init__(self, model: str, *, vertex: bool) -> None:
        self._model = model
        self._vertex = vertex
        self._response_id = secrets.token_urlsafe(17)
        self._created: str | None = None

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores id, model and time, which all chunks repeat; writes the model's status."""
        self._response_id = event.id or self._response_id
        self._model = event.model_id or self._model
        self._created = event.timestamp.isoformat() if event.timestamp is not None else None
        status = self.own(event.provider_metadata).get("model_status")
        return b"" if status is None else self._write({"modelStatus": status})

    def start(self, event: Start) -> tuple[TextBlock, bytes] | None:
        """Blocks have no start; calls are written in one piece."""
        if isinstance(event, ToolInputStart):
            return None
        return TextBlock(signed=[] if self._side_fields(event.provider_metadata) else None), b""

    def delta(self, block: TextBlock, event: Delta) -> bytes:
        """Writes a fragment, or holds it back until the end of a signed block."""
        if block.signed is not None:
            block.signed.append(event.delta)
            return b""
        thought = _thought(isinstance(event, ReasoningDelta))
        return self._part({"text": event.delta, **thought, **self._side_fields(event.provider_metadata)})

    def end(self, block: TextBlock, event: End) -> bytes:
        """Writes the signature, with the text if it was held back."""
        side_fields = self._side_fields(event.provider_metadata)
        if block.signed is None and not side_fields:
            return b""
        thought = _thought(isinstance(event, ReasoningEnd))
        return self._part({"text": "".join(block.signed or ()), **thought, **side_fields})

    def call(self, event: ToolCall) -> bytes:
        """Writes a call in one piece, as the vendor does."""
        return self._part(self._vendor_call(event) if event.provider_executed else self._client_call(event))

    def result(self, event: ToolResult) -> bytes:
        """Writes the result of the vendor's tool."""
        call_id, side_fields = self._id(event.tool_call_id), self._side_fields(event.provider_metadata)
        if event.tool_name != CODE_EXECUTION:
            response = {"toolType": self._tool_type(event), **call_id, "response": event.result}
            return self._part({"toolResponse": response, **side_fields})
        result = event.result
        if not isinstance(result, dict):
            outcome = "OUTCOME_FAILED" if event.is_error else "OUTCOME_OK"
            text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
            result = {"outcome": outcome, "output": text}
        return self._part({"codeExecutionResult": {**result, **call_id}, **side_fields})

    def part(self, event: Part, block: TextBlock | None) -> bytes:
        """Writes a source as grounding; a file or a part that only this vendor has as a part."""
        if isinstance(event, Source):
            return self._chunk({"groundingMetadata": grounding_of([event])})
        side_fields = self._side_fields(event.provider_metadata)
        own = self.own(event.provider_metadata)
        if isinstance(event, Custom):
            if not event.kind.startswith(f"{KEY}."):
                return b""
            fields = {key: value for key, value in own.items() if key not in SIDE_FIELDS}
            return self._part({camel(event.kind.removeprefix(f"{KEY}.")): fields, **side_fields})
        blob: dict[str, str] = {"mimeType": event.media_type}
        kind = "inlineData" if isinstance(event.data, bytes) else "fileData"
        if isinstance(event.data, bytes):
            blob["data"] = base64.b64encode(event.data).decode()
        else:
            blob["fileUri"] = event.data
        if isinstance(own.get("display_name"), str):
            blob["displayName"] = own["display_name"]
        return self._part({kind: blob, **_thought(isinstance(event, ReasoningFile)), **side_fields})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes the last chunk: finish reason, usage, and why a prompt was rejected."""
        own = self.own(event.provider_metadata)
        raw = event.raw_finish_reason
        if event.finish_reason == "error" and FINISH_REASONS.get(raw or "") != "error":
            return None
        fields: dict[str, Any] = {}
        usage = write_usage(event.usage)
        if usage is not None:
            fields["usageMetadata"] = usage
        if "model_status" in own:
            fields["modelStatus"] = own["model_status"]
        feedback = own.get("prompt_feedback")
        if isinstance(feedback, dict):
            fields["promptFeedback"] = feedback
            # A prompt that was rejected has no candidate.
            if is_block_reason(feedback.get("blockReason")):
                return self._write(fields)
        reason = raw_reason(
            "error" if raw and FINISH_REASONS.get(raw) == "error" else event.finish_reason, raw
        )
        candidate = {camel(name): value for name, value in own.items() if name not in _NOT_OF_CANDIDATE}
        return self._chunk({"finishReason": reason, **candidate}, **fields)

    def ends_at(self, error: ErrorInfo) -> bool:
        """A response that is not usable, such as a malformed call, has its error as finish reason."""
        # Such as MALFORMED_FUNCTION_CALL.
        return FINISH_REASONS.get(error.reason or "") != "error"

    def error(self, error: ErrorInfo) -> bytes:
        """Writes the error object, as in an error response."""
        return _data(google_error_object(error))

    def _client_call(self, event: ToolCall) -> dict[str, Any]:
        args = object_text(event.input, key="input")
        call = {**self._id(event.tool_call_id), "name": event.tool_name, "args": args}
        return {"functionCall": call, **self._side_fields(event.provider_metadata)}

    def _vendor_call(self, event: ToolCall) -> dict[str, Any]:
        call_id, side_fields = self._id(event.tool_call_id), self._side_fields(event.provider_metadata)
        args = object_text(event.input, key="code")
        if event.tool_name == CODE_EXECUTION:
            code = msgspec.json.decode(args)
            # Required by the vendor's schema.
            language = {} if "language" in code else {"language": "PYTHON"}
            return {"executableCode": {**language, **code, **call_id}, **side_fields}
        return {"toolCall": {"toolType": self._tool_type(event), **call_id, "args": args}, **side_fields}

    def _id(self, call_id: str) -> dict[str, str]:
        # Vertex AI has no ids, and an id that the decoder minted is not the vendor's.
        return {} if self._vertex or is_minted(call_id) else {"id": call_id}

    def _tool_type(self, event: ToolCall | ToolResult) -> str:
        kind = self.own(event.provider_metadata).get("tool_type")
        return kind if isinstance(kind, str) else event.tool_name.upper()

    def _side_fields(self, metadata: Metadata | None) -> dict[str, Any]:
        """Returns fields beside the content of a part, such as its signature."""
        own = self.own(metadata)
        return {camel(name): own[name] for name in (*SIDE_FIELDS, TRANSCRIPTION) if name in own}

    def _part(self, part: dict[str, Any]) -> bytes:
        return self._chunk({}, part)

    def _chunk(self, candidate: dict[str, Any], *parts: dict[str, Any], **fields: Any) -> bytes:
        # The vendor's last chunk has an empty text.
        content = {"parts": list(parts) or [{"text": ""}], "role": "model"}
        return self._write({"candidates": [{"content": content, **candidate, "index": 0}], **fields})

    def _write(self, chunk: dict[str, Any]) -> bytes:
        created = {} if self._created is None else {"createTime": self._created}
        return _data({**chunk, "modelVersion": self._model, **created, "responseId": self._response_id})


def _data(value: dict[str, Any]) -> bytes:
    # Google's frames end in CRLF.
    return b"data: %b\r\n\r\n" % msgspec.json.encode(value)


def _thought(is_thought: bool) -> dict[str, bool]:
    return {"thought": True} if is_thought else {}


# Complete responses: one object of generateContent.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the response of generateContent from the chunks of a stream."""
    response: dict[str, Any] = {}
    candidate = _Candidate()
    found = False
    for chunk in sse_objects(body):
        for one in chunk.pop("candidates", ()):
            found = True
            candidate.feed(one)
        response |= chunk
    return {"candidates": [candidate.close()], **response} if found else response


class _Candidate:
    """The only candidate of a response, with the parts of a text joined."""

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
        """Adds a part. A text continues until a part has another field, such as a signature."""
        last = self._parts[-1] if self._parts else {}
        # Text after a signature stays apart: the signature belongs to its part only.
        continues = "text" in last and last.keys() <= {"text", "thought"} and "text" in part
        if continues and part.get("thought") == last.get("thought"):
            self._texts.add(last, "text", part["text"])
            last |= {name: value for name, value in part.items() if name != "text"}
        else:
            self._parts.append(part)

    def _ground(self, grounding: dict[str, Any]) -> None:
        """Extends the lists; indices into `groundingChunks` are shifted by the chunks that came before."""
        before = len(self._grounding.get("groundingChunks", ()))
        for support in grounding.get("groundingSupports", ()):
            indices = support.get("groundingChunkIndices")
            if before and indices:
                support["groundingChunkIndices"] = [before + index for index in indices]
        for name, value in grounding.items():
            if isinstance(value, list):
                self._grounding.setdefault(name, []).extend(value)
            else:
                self._grounding[name] = value
