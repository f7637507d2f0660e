"""Events as the stream that Mistral would have sent: the reverse of `decoder.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.dialects.data_uris import data_uri
from llmstream.dialects.logprobs import logprobs_of
from llmstream.dialects.mistral.error_words import error_object
from llmstream.dialects.mistral.finish import KEY, raw_reason, write_usage
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
)

__all__ = ["MistralEventEncoder"]


class MistralEventEncoder:
    """Writes one answer, chunk by chunk; a call comes whole, in a chunk of its own.

    What the wire has no word for becomes nothing: the ends of blocks, pages of other vendors
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
        """The bytes that say this event."""
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
    """A part of the content list, as it was where it came from there; references are told once."""
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
