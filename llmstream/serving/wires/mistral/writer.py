"""Writes events as a Mistral stream: the reverse of `decoder.py`."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.logprobs import logprobs_of
from llmstream.dialects.media import data_uri
from llmstream.dialects.mistral.wire import KEY, raw_reason, write_usage
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ResponseMetadata,
    Source,
    TextDelta,
    ToolCall,
)
from llmstream.exchange import HttpResponse
from llmstream.serving.wires.complete_responses import GrowingTexts, sse_objects

__all__ = [
    "MistralEventEncoder",
    "complete_response",
    "encode_error",
    "misordered",
    "refused",
    "unfit",
]


# Errors in Mistral's form.
#
# Two shapes: what the API's schema forbids is a 422 whose message is a `detail` list with places and
# types; what a model cannot take is a 400 with a type and a code.

_ANSWERS: Final[dict[str, tuple[int, str, str | None]]] = {
    "bad-request": (400, "invalid_request_invalid_args", "3051"),
    "context-too-long": (400, "invalid_request_invalid_args", "3051"),
    "content-filtered": (400, "invalid_request_error", "3000"),
    "invalid-request": (400, "invalid_request_error", "3000"),
    "unsupported": (400, "invalid_request_error", "3000"),
    "authentication": (401, "invalid_request_error", None),
    "permission-denied": (403, "invalid_request_error", None),
    "not-found": (404, "invalid_model", "1500"),
    "rate-limited": (429, "rate_limited", "1300"),
    "overloaded": (503, "service_tier_capacity_exceeded", "3505"),
    "deadline-exceeded": (504, "timeout", None),
}
_ELSE: Final = (500, "internal_server_error", "1000")
_CODES: Final = {"invalid_request_message_order": "3230", "invalid_function_call": "3280"}
"""source: answers quoted in public issues, 2024 to 2026"""

_PLACE: Final = re.compile(r"(body(?:\.\w+)*): (.*)", re.DOTALL)


def unfit(place: str, message: str, kind: str = "missing") -> BadRequest:
    """What the schema forbids.

    place: from the body inwards, with dots: "body.messages.0.content"
    kind:  of the defect, such as "extra_forbidden"
    """
    return BadRequest(f"{place}: {message}", status=422, reason=kind)


def refused(message: str, kind: str = "invalid_request_error") -> BadRequest:
    """What the model cannot take."""
    return BadRequest(message, status=400, reason=kind)


def misordered(message: str) -> BadRequest:
    """Roles in an order that the model cannot take."""
    return refused(message, "invalid_request_message_order")


def error_object(error: ErrorInfo) -> dict[str, Any]:
    """The error as the body of an answer, and inside a stream."""
    status, kind, code = _ANSWERS.get(error.code, _ELSE)
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
        "raw_status_code": error.status or status,
    }


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    status = error.status if error.status is not None and error.status >= 400 else None
    status = status or _ANSWERS.get(error.code, _ELSE)[0]
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    if error.request_id:
        headers["mistral-correlation-id"] = error.request_id
    if error.reason == UNKNOWN_PATH:  # its gateway answers this, seen in public issues of 2026
        body: dict[str, Any] = {"message": error.message, "request_id": error.request_id}
    else:
        body = {"detail": error.message} if status == 401 else error_object(error)
    return HttpResponse(status, msgspec.json.encode(body), headers)


class MistralEventEncoder:
    """Writes one response, chunk by chunk; a complete call is a chunk of its own.

    Left out, because the wire cannot express it: the ends of blocks, pages of other vendors
    (unless they have a URL), tools that the vendor ran. An error event is written where it ends
    the stream.
    """

    def __init__(self, *, model: str) -> None:
        self._frame: dict[str, Any] = {
            "id": "00000000000000000000000000000000",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
        }
        self._begun = False
        self._over = False
        self._calls = 0
        self._error: ErrorInfo | None = None

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event."""
        match event:
            case TextDelta(words):
                return self._delta({"content": words}, event.provider_metadata)
            case ReasoningDelta(words):
                fragment = {"type": "thinking", "thinking": [{"type": "text", "text": words}]}
                return self._delta({"content": [fragment]}, event.provider_metadata)
            case ReasoningEnd():
                signature = _own(event.provider_metadata).get("signature")
                signed: dict[str, Any] = {"type": "thinking", "thinking": [], "signature": signature}
                return self._delta({"content": [signed]}) if signature else b""
            case ToolCall():
                return b"" if event.provider_executed else self._call(event)
            case Source() | File() | Custom():
                part = _part(event)
                return b"" if part is None else self._delta({"content": [part]})
            case ResponseMetadata():
                self._name(event)
            case ErrorEvent():
                self._error = event.error
            case Finish():
                return self._finish(event)
        return b""

    def close(self) -> bytes:
        """`[DONE]`, unless the stream failed before."""
        return b"data: [DONE]\n\n" if self._over else b""

    def _name(self, event: ResponseMetadata) -> None:
        if event.id is not None:
            self._frame["id"] = event.id
        if event.model_id is not None:
            self._frame["model"] = event.model_id
        if event.timestamp is not None:
            self._frame["created"] = int(event.timestamp.timestamp())

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._choice({"role": "assistant", "content": ""})

    def _delta(self, delta: dict[str, Any], metadata: Metadata | None = None) -> bytes:
        return self._begin() + self._choice(delta, metadata=metadata)

    def _choice(
        self,
        delta: dict[str, Any],
        reason: str | None = None,
        *,
        metadata: Metadata | None = None,
        **more: Any,
    ) -> bytes:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
        if metadata and (found := logprobs_of(metadata)):
            choice["logprobs"] = {"content": found}
        if prompt := _own(metadata).get("prompt_logprobs"):
            choice["prompt_logprobs"] = prompt
        return _data({**self._frame, "choices": [choice], **more})

    def _call(self, event: ToolCall) -> bytes:
        arguments = "" if event.invalid and event.input == "{}" else event.input
        function = {"name": event.tool_name, "arguments": arguments}
        call = {"id": event.tool_call_id, "function": function, "index": self._calls, "type": "function"}
        self._calls += 1
        return self._delta({"tool_calls": [call]})

    def _finish(self, event: Finish) -> bytes:
        if event.finish_reason == "error" and self._error is not None and event.raw_finish_reason is None:
            return _data(error_object(self._error))
        self._over = True
        delta: dict[str, Any] = {"content": ""}
        if said := _own(event.provider_metadata).get("metadata"):
            delta["metadata"] = said
        usage = write_usage(event.usage)
        last = self._choice(delta, raw_reason(event), metadata=event.provider_metadata, usage=usage)
        return self._begin() + last


def _part(event: Source | File | Custom) -> dict[str, Any] | None:
    """A part of the content list, unchanged if it came from there; references are written once."""
    own = _own(event.provider_metadata)
    if isinstance(event, Custom):
        return own if event.kind.startswith(f"{KEY}.") else None
    if isinstance(event, File):
        data = event.data
        url = data if isinstance(data, str) else data_uri(data, event.media_type)
        if event.media_type.startswith("image/"):
            detail = own.get("detail")
            return {"type": "image_url", "image_url": {"url": url, "detail": detail} if detail else url}
        name = own.get("document_name")
        return {"type": "document_url", "document_url": url, **({"document_name": name} if name else {})}
    if "reference_ids" in own:
        told = own.get("reference", 0) == 0
        return {"type": "reference", "reference_ids": own["reference_ids"]} if told else None
    if own.get("type") == "tool_reference":
        return own
    if event.url is None:
        return None
    return {"type": "tool_reference", "tool": "web_search", "title": event.title or "", "url": event.url}


def _own(metadata: Metadata | None) -> dict[str, Any]:
    return (metadata or {}).get(KEY) or {}


def _data(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


# Complete responses: one `chat.completion` object.


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the chunks of a stream make."""
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
        """A thought goes on: its texts are joined, and a signature comes at its end."""
        thoughts = last["thinking"]
        for piece in part["thinking"]:
            if thoughts and thoughts[-1]["type"] == piece["type"] == "text":
                self._texts.add(thoughts[-1], "text", piece["text"])
            else:
                thoughts.append(piece)
        last |= {name: value for name, value in part.items() if name != "thinking"}
