"""Writes events as a Chat Completions stream, chunk by chunk as OpenAI does."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.logprobs import logprobs_of
from llmstream.dialects.openai_chat.attachments import extras_chunk
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.wire import raw_reason, write_usage
from llmstream.dialects.tool_calls import plain_input
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
    ResponseMetadata,
    Source,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    Usage,
)
from llmstream.exchange import HttpResponse
from llmstream.serving.wires.complete_responses import GrowingTexts, sse_objects
from llmstream.serving.wires.openai_errors import error_answer

__all__ = ["ChunkWriter", "complete_response", "error_response"]


# Errors as OpenAI answers them: the reverse of reading them.

_ANSWERS: Final[dict[str, tuple[int, str, str | None]]] = {
    "bad-request": (400, "invalid_request_error", None),
    "context-too-long": (400, "invalid_request_error", "context_length_exceeded"),
    "content-filtered": (400, "invalid_request_error", "content_filter"),
    "authentication": (401, "authentication_error", "invalid_api_key"),
    "permission-denied": (403, "permission_error", None),
    "not-found": (404, "invalid_request_error", "model_not_found"),
    "rate-limited": (429, "rate_limit_error", "rate_limit_exceeded"),
    "overloaded": (503, "overloaded_error", None),
    "deadline-exceeded": (504, "timeout_error", None),
    "invalid-request": (400, "invalid_request_error", None),
    "unsupported": (400, "invalid_request_error", None),
}
_ELSE: Final = (500, "server_error", None)


def error_object(error: ErrorInfo, *, in_band: bool = False) -> dict[str, Any]:
    """The `error` object; inside a stream it includes the status, as Groq's does."""
    status, kind, code = _ANSWERS.get(error.code, _ELSE)
    out: dict[str, Any] = {"message": error.message, "type": kind, "param": error.param}
    out["code"] = None if error.reason == UNKNOWN_PATH else error.reason or code
    out |= error.details or {}
    if in_band:
        out["status_code"] = error.status or status
    return out


def error_response(error: ErrorInfo) -> HttpResponse:
    """The answer with which OpenAI would refuse or fail."""
    status = error.status or _ANSWERS.get(error.code, _ELSE)[0]
    return error_answer(error, status, error_object(error))


_DETAILS = "reasoning_details"
_EXTRA = "extra_content"
_OPAQUE = "reasoning_opaque"
_PLACES = ("start_index", "end_index", "content")
_FIELDS = {"reasoning": "reasoning", "reasoning_details": "reasoning", "reasoning_text": "reasoning_text"}
"""Under which name the wire has reasoning, by the name under which it goes back."""
_NOTHING_COUNTED = Usage()


class ChunkWriter:
    """Events of one response in, server-sent chunks out; see `dialects.base.EventEncoder`.

    include_usage: whether the client asked for the usage chunk

    Left out, because the wire cannot express it: the ends of blocks, warnings, and tools that
    somebody else ran. An error event is written where it ends the stream.
    """

    def __init__(self, quirks: Quirks, *, model: str, include_usage: bool = True) -> None:
        self._quirks = quirks
        self._include_usage = include_usage
        self._frame: dict[str, Any] = {
            "id": "chatcmpl-llmstream",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
        }
        self._field = _FIELDS.get(quirks.reasoning.field, "reasoning_content")
        self._opened = False
        self._finished = False
        self._inputs: dict[str, int] = {}
        self._custom: set[str] = set()
        self._error: ErrorInfo | None = None

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event; b"" if the wire cannot express it."""
        match event:
            case TextDelta(words):
                return self._delta({"content": words}, event.provider_metadata)
            case ReasoningDelta(words):
                return self._delta({self._field: words}, event.provider_metadata)
            case ToolInputDelta(words, call_id):
                return self._input(call_id, words)
            case ToolInputStart():
                return b"" if event.provider_executed else self._head(event, event.id, "")
            case ToolCall():
                return self._whole(event)
            case ResponseMetadata():
                return self._names(event)
            case ReasoningEnd() | Custom():
                said = {name: _kept(event.provider_metadata, name) for name in (_DETAILS, _EXTRA, _OPAQUE)}
                said = {name: value for name, value in said.items() if value}
                if _DETAILS in said:
                    said["reasoning"] = ""
                return self._delta(said) if said else b""
            case Source() | File():
                return self._beside(event)
            case ErrorEvent():
                self._error = event.error
                return b""
            case Finish():
                return self._finish(event)
            case _:
                return b""

    def close(self) -> bytes:
        """`[DONE]`, unless the stream failed before."""
        return b"data: [DONE]\n\n" if self._finished else b""

    def _names(self, event: ResponseMetadata) -> bytes:
        if self._opened:
            return b""
        self._frame["id"] = event.id or ""
        self._frame["model"] = event.model_id or ""
        if event.timestamp is not None:
            self._frame["created"] = int(event.timestamp.timestamp())
        return self._open()

    def _open(self) -> bytes:
        if self._opened:
            return b""
        self._opened = True
        return self._choice({"role": "assistant", "content": ""})

    def _delta(self, delta: dict[str, Any], metadata: Metadata | None = None) -> bytes:
        return self._open() + self._choice(delta, logprobs=logprobs_of(metadata) if metadata else [])

    def _choice(self, delta: dict[str, Any], reason: str | None = None, logprobs: list[Any] = []) -> bytes:
        told = {"content": logprobs, "refusal": None} if logprobs else None
        choice = {"index": 0, "delta": delta, "logprobs": told, "finish_reason": reason}
        return _data({**self._frame, "choices": [choice]})

    def _head(self, event: ToolInputStart | ToolCall, call_id: str, text: str) -> bytes:
        place = self._inputs.setdefault(call_id, len(self._inputs))
        plain = plain_input(text, event.provider_metadata)
        if plain is not None:
            self._custom.add(call_id)
            custom = {"name": event.tool_name, "input": plain}
            return self._call(place, {"id": call_id, "type": "custom", "custom": custom})
        function = {"name": event.tool_name, "arguments": text}
        return self._call(place, {"id": call_id, "type": "function", "function": function})

    def _input(self, call_id: str, text: str) -> bytes:
        place = self._inputs.get(call_id)
        if place is None:
            return b""
        custom = call_id in self._custom
        return self._call(place, {"custom": {"input": text}} if custom else {"function": {"arguments": text}})

    def _call(self, place: int, fragment: dict[str, Any]) -> bytes:
        return self._delta({"tool_calls": [{"index": place, **fragment}]})

    def _whole(self, call: ToolCall) -> bytes:
        """A call's own fields, and all of it where its input was not streamed."""
        if call.provider_executed:
            return b""
        out = b""
        if call.tool_call_id not in self._inputs:
            out = self._head(call, call.tool_call_id, call.input)
        extra = _kept(call.provider_metadata, _EXTRA)
        if extra:
            out += self._call(self._inputs[call.tool_call_id], {_EXTRA: extra})
        return out

    def _beside(self, event: Source | File) -> bytes:
        if isinstance(event, Source):
            if event.url is None:
                return b""
            places = {name: _kept(event.provider_metadata, name) for name in _PLACES}
            said = {name: value for name, value in places.items() if value is not None}
            citation = {"url": event.url, "title": event.title or "", **said}
            return self._delta({"annotations": [{"type": "url_citation", "url_citation": citation}]})
        data = event.data
        if event.media_type.startswith("audio/") and isinstance(data, bytes):
            audio = {"id": _kept(event.provider_metadata, "audio_id"), "data": _base64(data)}
            audio["expires_at"] = _kept(event.provider_metadata, "audio_expires_at")
            return self._delta({"audio": {k: v for k, v in audio.items() if v}})
        url = data if isinstance(data, str) else f"data:{event.media_type};base64,{_base64(data)}"
        return self._delta({"images": [{"type": "image_url", "image_url": {"url": url}}]})

    def _finish(self, event: Finish) -> bytes:
        raw = raw_reason(event.finish_reason, event.raw_finish_reason, self._quirks.finish_reasons)
        if event.finish_reason == "error" and self._error is not None and event.raw_finish_reason is None:
            return _data({"error": error_object(self._error, in_band=True)})
        self._finished = True
        out = self._open()
        if raw is not None:
            out += self._choice({}, raw, logprobs_of(event.provider_metadata))
        if beside := extras_chunk(event.provider_metadata):
            out += _data({**self._frame, **beside})
        if self._include_usage and event.usage != _NOTHING_COUNTED:
            usage = write_usage(event.usage, self._quirks.usage)
            out += _data({**self._frame, "choices": [], "usage": usage})
        return out


def _kept(metadata: Metadata | None, name: str) -> Any:
    """What any vendor of this wire wants back under a name."""
    found = [own[name] for own in (metadata or {}).values() if own.get(name) not in (None, "", [], {})]
    return found[0] if found else None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _data(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


# A Chat Completions stream as one `chat.completion` object.

_OF_CHUNK: Final = ("choices", "object")
_DETAIL_TEXTS: Final = ("text", "summary", "data")


def complete_response(body: bytes) -> dict[str, Any]:
    """The complete response that a streamed body amounts to."""
    completion: dict[str, Any] = {"id": "", "object": "chat.completion"}
    choice = _Choice()
    for chunk in sse_objects(body):
        completion |= {name: value for name, value in chunk.items() if name not in _OF_CHUNK}
        for one in chunk.get("choices", ()):
            choice.feed(one)
    usage = {"usage": completion.pop("usage")} if "usage" in completion else {}
    return {**completion, "choices": [choice.close()], **usage}


class _Choice:
    """The one choice of an answer: deltas in, its message out."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: list[Any] = []
        self._reason: str | None = None

    def feed(self, choice: dict[str, Any]) -> None:
        self._reason = choice.get("finish_reason") or self._reason
        self._logprobs += (choice.get("logprobs") or {}).get("content") or []
        for name, value in choice["delta"].items():
            if name == "tool_calls":
                for call in value:
                    self._call(call)
            elif name == "reasoning_details":
                for detail in value:
                    self._detail(detail)
            elif isinstance(value, list):
                self._message.setdefault(name, []).extend(value)
            elif isinstance(value, dict):
                self._message.setdefault(name, {}).update(value)
            elif name != "role" and value:
                self._texts.add(self._message, name, value)

    def close(self) -> dict[str, Any]:
        self._texts.join()
        if self._calls:
            self._message["tool_calls"] = [self._calls[place] for place in sorted(self._calls)]
        elif self._message["content"] is None:
            self._message["content"] = ""
        logprobs = {"content": self._logprobs, "refusal": None} if self._logprobs else None
        return {"index": 0, "message": self._message, "logprobs": logprobs, "finish_reason": self._reason}

    def _call(self, fragment: dict[str, Any]) -> None:
        call = self._calls.setdefault(fragment["index"], {})
        for name, value in fragment.items():
            if name in ("function", "custom"):
                inner = call.setdefault(name, {})
                for field, text in value.items():
                    self._texts.add(inner, field, text)
            elif name != "index":
                call[name] = value

    def _detail(self, fragment: dict[str, Any]) -> None:
        """Fragments of one detail of reasoning carry its index, as OpenRouter streams them."""
        details: list[dict[str, Any]] = self._message.setdefault("reasoning_details", [])
        last = details[-1] if details else {}
        if "index" not in fragment or any(fragment.get(f) != last.get(f) for f in ("index", "type")):
            details.append(dict(fragment))
            return
        for name, value in fragment.items():
            if name in _DETAIL_TEXTS:
                self._texts.add(last, name, value)
            elif value is not None:
                last[name] = value
