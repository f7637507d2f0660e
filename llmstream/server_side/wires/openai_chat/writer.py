"""Writes events as a Chat Completions stream, chunk by chunk as OpenAI does."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Final

from llmstream.dialects.openai_chat.attachments import extras_chunk
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.wire import raw_reason, write_usage
from llmstream.dialects.tool_calls import plain_input
from llmstream.dialects.wire_values import logprobs_of
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    File,
    Finish,
    Metadata,
    ReasoningEnd,
    ResponseMetadata,
    Source,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    Usage,
)
from llmstream.server_side.wires.errors import error_in_stream
from llmstream.server_side.wires.event_writer import (
    DONE,
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    sse_data,
    sse_objects,
)

__all__ = ["ChatShapes", "complete_response"]


_DETAILS: Final = "reasoning_details"
_EXTRA: Final = "extra_content"
_OPAQUE: Final = "reasoning_opaque"
_CITATION_FIELDS: Final = ("start_index", "end_index", "content")

# The name under which a vendor streams reasoning, by the name under which it takes it back. All others
# stream it as `reasoning_content`.
_FIELDS: Final = {
    "reasoning": "reasoning",
    "reasoning_details": "reasoning",
    "reasoning_text": "reasoning_text",
}


@dataclasses.dataclass(slots=True)
class ChatBlock(Block):
    """An open block; index: of a call; is_custom: the call has text in place of JSON."""

    is_custom: bool = False


class ChatShapes(Shapes[ChatBlock]):
    """Chunks with one delta each.

    include_usage: whether the client requested the usage chunk

    Left out, because the wire cannot express it: the ends of blocks, and tools that the vendor ran.
    """

    end_mark = DONE

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
        self._indexes: dict[str, int] = {}

    def named(self, event: ResponseMetadata) -> bytes:
        """Stores id, model and time, which all chunks repeat."""
        self._frame["id"] = event.id or ""
        self._frame["model"] = event.model_id or ""
        if event.timestamp is not None:
            self._frame["created"] = int(event.timestamp.timestamp())
        return b""

    def begin(self) -> bytes:
        """Writes the chunk with the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def start(self, event: Start) -> tuple[ChatBlock, bytes] | None:
        """Opens a call; other blocks have no start."""
        if not isinstance(event, ToolInputStart):
            return ChatBlock(), b""
        return None if event.provider_executed else self._call_start(event, event.id, "")

    def delta(self, block: ChatBlock, event: Delta) -> bytes:
        """Extends the message or a call."""
        if isinstance(event, ToolInputDelta):
            kind, field = ("custom", "input") if block.is_custom else ("function", "arguments")
            return self._call_chunk(block.index, {kind: {field: event.delta}})
        field = "content" if isinstance(event, TextDelta) else self._field
        return self._chunk({field: event.delta}, logprobs=logprobs_of(event.provider_metadata))

    def end(self, block: ChatBlock, event: End) -> bytes:
        """Writes what a vendor of this wire wants back with the reasoning."""
        return self._opaque(event.provider_metadata) if isinstance(event, ReasoningEnd) else b""

    def call(self, event: ToolCall) -> bytes:
        """Writes a call whose input did not stream, and the extra content of any call."""
        if event.provider_executed:
            return b""
        out = b""
        if event.tool_call_id not in self._indexes:
            _, out = self._call_start(event, event.tool_call_id, event.input)
        extra = _found(event.provider_metadata, _EXTRA)
        return out + (self._call_chunk(self._indexes[event.tool_call_id], {_EXTRA: extra}) if extra else b"")

    def part(self, event: Part, block: ChatBlock | None) -> bytes:
        """Writes a citation, audio or an image beside the text."""
        if isinstance(event, Custom):
            return self._opaque(event.provider_metadata)
        if isinstance(event, Source):
            return self._cite(event)
        if not isinstance(event, File):
            return b""
        data = event.data
        if event.media_type.startswith("audio/") and isinstance(data, bytes):
            audio = {"id": _found(event.provider_metadata, "audio_id"), "data": _base64(data)}
            audio["expires_at"] = _found(event.provider_metadata, "audio_expires_at")
            return self._chunk({"audio": {k: v for k, v in audio.items() if v}})
        url = data if isinstance(data, str) else f"data:{event.media_type};base64,{_base64(data)}"
        return self._chunk({"images": [{"type": "image_url", "image_url": {"url": url}}]})

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes the finish reason, the extras of the response, and its usage."""
        if event.finish_reason == "error" and error is not None and event.raw_finish_reason is None:
            return None
        out = b""
        raw = raw_reason(event.finish_reason, event.raw_finish_reason, self._quirks.finish_reasons)
        if raw is not None:
            out = self._chunk({}, raw, logprobs_of(event.provider_metadata))
        if extras := extras_chunk(event.provider_metadata):
            out += sse_data({**self._frame, **extras})
        # An unknown usage is left out: zeros would be read as counts.
        if self._include_usage and event.usage != Usage():
            usage = write_usage(event.usage, self._quirks.usage)
            out += sse_data({**self._frame, "choices": [], "usage": usage})
        return out

    def error(self, error: ErrorInfo) -> bytes:
        """Writes the error object."""
        return sse_data({"error": error_in_stream(error)})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, logprobs: list[Any] = []) -> bytes:
        found = {"content": logprobs, "refusal": None} if logprobs else None
        choice = {"index": 0, "delta": delta, "logprobs": found, "finish_reason": reason}
        return sse_data({**self._frame, "choices": [choice]})

    def _call_start(
        self, event: ToolInputStart | ToolCall, call_id: str, text: str
    ) -> tuple[ChatBlock, bytes]:
        index = self._indexes.setdefault(call_id, len(self._indexes))
        plain = plain_input(text, event.provider_metadata)
        if plain is None:
            function = {"name": event.tool_name, "arguments": text}
            call = {"id": call_id, "type": "function", "function": function}
        else:
            call = {"id": call_id, "type": "custom", "custom": {"name": event.tool_name, "input": plain}}
        return ChatBlock(index, is_custom=plain is not None), self._call_chunk(index, call)

    def _call_chunk(self, index: int, fragment: dict[str, Any]) -> bytes:
        return self._chunk({"tool_calls": [{"index": index, **fragment}]})

    def _opaque(self, metadata: Metadata | None) -> bytes:
        delta = {name: _found(metadata, name) for name in (_DETAILS, _EXTRA, _OPAQUE)}
        delta = {name: value for name, value in delta.items() if value}
        if _DETAILS in delta:
            # OpenRouter's chunks with details always have `reasoning`, whose text has streamed already.
            delta["reasoning"] = ""
        return self._chunk(delta) if delta else b""

    def _cite(self, event: Source) -> bytes:
        if event.url is None:
            return b""
        fields = {name: _found(event.provider_metadata, name) for name in _CITATION_FIELDS}
        fields = {name: value for name, value in fields.items() if value is not None}
        citation = {"url": event.url, "title": event.title or "", **fields}
        return self._chunk({"annotations": [{"type": "url_citation", "url_citation": citation}]})


def _found(metadata: Metadata | None, name: str) -> Any:
    """Returns a field of the metadata of any vendor: all vendors of this wire have the same fields."""
    found = [own[name] for own in (metadata or {}).values() if own.get(name) not in (None, "", [], {})]
    return found[0] if found else None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# A Chat Completions stream as one `chat.completion` object.

_OF_CHUNK: Final = ("choices", "object")
_DETAIL_TEXTS: Final = ("text", "summary", "data")


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the `chat.completion` object from the chunks of a stream."""
    completion: dict[str, Any] = {"id": "", "object": "chat.completion"}
    choice = _Choice()
    for chunk in sse_objects(body):
        completion |= {name: value for name, value in chunk.items() if name not in _OF_CHUNK}
        for one in chunk.get("choices", ()):
            choice.feed(one)
    usage = {"usage": completion.pop("usage")} if "usage" in completion else {}
    return {**completion, "choices": [choice.close()], **usage}


class _Choice:
    """The only choice of a response: deltas in, its message out."""

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
        # OpenAI has null only beside calls.
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
        """Adds a fragment of a reasoning detail. OpenRouter streams them with the index of their detail."""
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
