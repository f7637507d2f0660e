"""Writes events as a Mistral stream: the reverse of `decoder.py`."""

from __future__ import annotations

import re
from typing import Any, Final

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.media import data_uri
from llmstream.dialects.mistral.wire import FINISH_REASONS, KEY, write_usage
from llmstream.dialects.wire_values import logprobs_of
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import (
    Custom,
    File,
    Finish,
    FinishReason,
    Metadata,
    ReasoningEnd,
    ResponseMetadata,
    Source,
    TextDelta,
    ToolCall,
    ToolInputStart,
)
from llmstream.exchange import HttpResponse
from llmstream.server_side.wires.errors import error_response, status_of
from llmstream.server_side.wires.event_writer import (
    DONE,
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    raw_reason,
    sse_data,
    sse_objects,
)

__all__ = ["MistralShapes", "complete_response", "encode_error", "misordered", "refused", "unfit"]


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "stop",
    "length": "length",
    "content-filter": "content_filter",
    "tool-calls": "tool_calls",
    "error": "error",
    "other": "other",
}


class MistralShapes(Shapes[Block]):
    """Chunks with one delta each; a complete call is a chunk of its own.

    Left out, because the wire cannot express it: the ends of blocks, pages of other vendors without a
    URL, and tools that the vendor ran.
    """

    key = KEY
    # The role comes with the first content, so a response that fails at once has only its error.
    begins_at = ()
    end_mark = DONE

    def __init__(self, *, model: str) -> None:
        self._frame: dict[str, Any] = {
            "id": "00000000000000000000000000000000",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
        }
        self._calls = 0

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores id, model and time, which all chunks repeat."""
        if event.id is not None:
            self._frame["id"] = event.id
        if event.model_id is not None:
            self._frame["model"] = event.model_id
        if event.timestamp is not None:
            self._frame["created"] = int(event.timestamp.timestamp())
        return b""

    def begin(self) -> bytes:
        """Writes the chunk with the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def start(self, event: Start) -> tuple[Block, bytes] | None:
        """Blocks have no start; calls are written in one piece."""
        return None if isinstance(event, ToolInputStart) else (Block(), b"")

    def delta(self, block: Block, event: Delta) -> bytes:
        """Writes text as a string, and reasoning as a part of a list."""
        if isinstance(event, TextDelta):
            return self._chunk({"content": event.delta}, metadata=event.provider_metadata)
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": event.delta}]}
        return self._chunk({"content": [thinking]}, metadata=event.provider_metadata)

    def end(self, block: Block, event: End) -> bytes:
        """Writes the signature of reasoning."""
        signature = self.own(event.provider_metadata).get("signature")
        if not signature or not isinstance(event, ReasoningEnd):
            return b""
        return self._chunk({"content": [{"type": "thinking", "thinking": [], "signature": signature}]})

    def call(self, event: ToolCall) -> bytes:
        """Writes a call in one piece, as the vendor does."""
        if event.provider_executed:
            return b""
        # The decoder makes "{}" of arguments that the token limit cut off before their first character.
        arguments = "" if event.invalid and event.input == "{}" else event.input
        function = {"name": event.tool_name, "arguments": arguments}
        call = {"id": event.tool_call_id, "function": function, "index": self._calls, "type": "function"}
        self._calls += 1
        return self._chunk({"tool_calls": [call]})

    def part(self, event: Part, block: Block | None) -> bytes:
        """Writes a part of the content list."""
        part = self._part(event)
        return b"" if part is None else self._chunk({"content": [part]})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes the chunk with finish reason and usage."""
        if event.finish_reason == "error" and error is not None and event.raw_finish_reason is None:
            return None
        delta: dict[str, Any] = {"content": ""}
        if metadata := self.own(event.provider_metadata).get("metadata"):
            delta["metadata"] = metadata
        usage = write_usage(event.usage)
        reason = raw_reason(event, lambda raw: FINISH_REASONS.get(raw.lower()), _RAW_REASONS)
        return self._chunk(delta, reason, metadata=event.provider_metadata, usage=usage)

    def error(self, error: ErrorInfo) -> bytes:
        """Writes the error object, as in an error response."""
        return sse_data(error_object(error))

    def _chunk(
        self,
        delta: dict[str, Any],
        reason: str | None = None,
        *,
        metadata: Metadata | None = None,
        **fields: Any,
    ) -> bytes:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
        if metadata and (found := logprobs_of(metadata)):
            choice["logprobs"] = {"content": found}
        if prompt := self.own(metadata).get("prompt_logprobs"):
            choice["prompt_logprobs"] = prompt
        return sse_data({**self._frame, "choices": [choice], **fields})

    def _part(self, event: Part) -> dict[str, Any] | None:
        """Builds a part of the content list, unchanged if it came from there."""
        own = self.own(event.provider_metadata)
        if isinstance(event, Custom):
            return own if event.kind.startswith(f"{KEY}.") else None
        if isinstance(event, Source):
            return _reference(event, own)
        if not isinstance(event, File):
            return None
        data = event.data
        url = data if isinstance(data, str) else data_uri(data, event.media_type)
        if event.media_type.startswith("image/"):
            detail = own.get("detail")
            return {"type": "image_url", "image_url": {"url": url, "detail": detail} if detail else url}
        name = own.get("document_name")
        return {"type": "document_url", "document_url": url, **({"document_name": name} if name else {})}


def _reference(source: Source, own: dict[str, Any]) -> dict[str, Any] | None:
    if "reference_ids" in own:
        # The decoder made a source of each id; all of them are written with the first.
        is_first = own.get("reference", 0) == 0
        return {"type": "reference", "reference_ids": own["reference_ids"]} if is_first else None
    if own.get("type") == "tool_reference":
        return own
    if source.url is None:
        return None
    return {"type": "tool_reference", "tool": "web_search", "title": source.title or "", "url": source.url}


# Errors in Mistral's form.
#
# Two shapes: a body that does not fit the API's schema is a 422, whose message is a `detail` list of places
# and types; a request that a model does not support is a 400 with a type and a code.

# Type and code by our code.
_TYPES: Final[dict[str, tuple[str, str | None]]] = {
    "bad-request": ("invalid_request_invalid_args", "3051"),
    "context-too-long": ("invalid_request_invalid_args", "3051"),
    "content-filtered": ("invalid_request_error", "3000"),
    "invalid-request": ("invalid_request_error", "3000"),
    "unsupported": ("invalid_request_error", "3000"),
    "authentication": ("invalid_request_error", None),
    "permission-denied": ("invalid_request_error", None),
    "not-found": ("invalid_model", "1500"),
    "rate-limited": ("rate_limited", "1300"),
    "overloaded": ("service_tier_capacity_exceeded", "3505"),
    "deadline-exceeded": ("timeout", None),
}
_SERVER_ERROR: Final = ("internal_server_error", "1000")

# source: error responses quoted in public issues, 2024 to 2026
_CODES: Final = {"invalid_request_message_order": "3230", "invalid_function_call": "3280"}

# As `unfit` writes a message.
_PLACE: Final = re.compile(r"(body(?:\.\w+)*): (.*)", re.DOTALL)


def unfit(place: str, message: str, kind: str = "missing") -> BadRequest:
    """Returns the error of a body that does not fit the schema.

    place: path from the body, such as "body.messages.0.content"
    kind:  of the defect, such as "extra_forbidden"
    """
    return BadRequest(f"{place}: {message}", status=422, reason=kind)


def refused(message: str, kind: str = "invalid_request_error") -> BadRequest:
    """Returns the error of a request that the model does not support."""
    return BadRequest(message, status=400, reason=kind)


def misordered(message: str) -> BadRequest:
    """Returns the error of roles in an invalid order."""
    return refused(message, "invalid_request_message_order")


def error_object(error: ErrorInfo) -> dict[str, Any]:
    """Builds the error object, as in an error response and inside a stream."""
    kind, code = _TYPES.get(error.code, _SERVER_ERROR)
    if error.reason in _CODES:
        kind, code = error.reason, _CODES[error.reason]
    message: Any = error.message
    found = _PLACE.fullmatch(error.message) if error.status == 422 else None
    if found is not None:
        place = [int(step) if step.isdecimal() else step for step in found[1].split(".")]
        message = {"detail": [{"type": error.reason or "value_error", "loc": place, "msg": found[2]}]}
        kind, code = "invalid_request_error", None
    return {
        "object": "error",
        "message": message,
        "type": kind,
        "param": None,
        "code": code,
        "raw_status_code": status_of(error),
    }


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    body = error_object(error)
    if error.reason == UNKNOWN_PATH:
        # Of the vendor's gateway; seen in public issues of 2026.
        body = {"message": error.message, "request_id": error.request_id}
    elif status_of(error) == 401:
        body = {"detail": error.message}
    return error_response(error, body, request_id="mistral-correlation-id")


# Complete responses: one `chat.completion` object.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the `chat.completion` object from the chunks of a stream."""
    completion: dict[str, Any] = {}
    content = _Content()
    message: dict[str, Any] = {"role": "assistant"}
    calls: list[Any] = []
    choice: dict[str, Any] = {"index": 0}
    logprobs: list[Any] = []
    for chunk in sse_objects(body):
        for one in chunk.pop("choices", ()):
            delta = one.pop("delta")
            content.feed(delta.pop("content", None) or [])
            calls += delta.pop("tool_calls", None) or []
            message |= delta
            logprobs += (one.pop("logprobs", None) or {}).get("content") or []
            choice |= one
        # Usage is in the last chunk; the other fields are the same in all of them.
        completion |= chunk
    message |= {"content": content.close(), "tool_calls": calls or None}
    choice |= {"message": message, **({"logprobs": {"content": logprobs}} if logprobs else {})}
    return {**completion, "object": "chat.completion", "choices": [choice]}


class _Content:
    """The content of a message: a string, or a list of parts where it has other than text."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._parts: list[dict[str, Any]] = []

    def feed(self, content: str | list[dict[str, Any]]) -> None:
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            last = self._parts[-1] if self._parts else {}
            if part["type"] != last.get("type") or part["type"] not in ("text", "thinking"):
                self._parts.append(part)
            elif part["type"] == "text":
                self._texts.add(last, "text", part["text"])
            else:
                self._think(last, part)

    def close(self) -> str | list[dict[str, Any]]:
        self._texts.join()
        parts = [part for part in self._parts if part != {"type": "text", "text": ""}]
        if not parts:
            return ""
        return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts

    def _think(self, last: dict[str, Any], part: dict[str, Any]) -> None:
        """Extends a thinking part: joins its texts; the signature comes last."""
        thoughts = last["thinking"]
        for piece in part["thinking"]:
            if thoughts and thoughts[-1]["type"] == piece["type"] == "text":
                self._texts.add(thoughts[-1], "text", piece["text"])
            else:
                thoughts.append(piece)
        last |= {name: value for name, value in part.items() if name != "thinking"}
