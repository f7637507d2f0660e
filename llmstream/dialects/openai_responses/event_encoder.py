"""Writes events as a Responses stream, item by item as OpenAI does."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from llmstream.dialects.openai_answers import error_object
from llmstream.dialects.openai_responses.call_encoder import CallEncoder, told_of
from llmstream.dialects.openai_responses.finish import ending
from llmstream.dialects.openai_responses.frames import Frames
from llmstream.dialects.openai_responses.prose_encoder import ProseEncoder
from llmstream.dialects.openai_responses.sources import KEY
from llmstream.dialects.openai_responses.steering import KIND as STEERING
from llmstream.dialects.openai_responses.token_usage import write_usage
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)

__all__ = ["ResponseWriter"]

_CUT: Final = frozenset({"incomplete-stream", "connection-lost"})
"""Errors that a body says by stopping."""


class ResponseWriter:
    """Events of one response in, server-sent events out; see `dialects.base.EventEncoder`.

    background, repeated: see `Frames`

    What the wire has no word for is left out: warnings, and results of tools that the caller
    ran. An error event is written where it ends the stream.
    """

    def __init__(
        self, *, model: str, background: bool = False, repeated: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._frames = Frames(model, background=background, repeated=repeated)
        self._calls = CallEncoder(self._frames)
        self._prose = ProseEncoder(self._frames)
        self._error: ErrorInfo | None = None

    def feed(self, event: Event) -> bytes:
        """The bytes that say this event; b"" where the wire has no word for it."""
        return self._prose.settle(event) + self._write(event)

    def close(self) -> bytes:
        """Nothing: the last event ends the body."""
        return b""

    def _write(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._prose.text_delta(event)
            case ReasoningDelta():
                return self._prose.reasoning_delta(event)
            case ToolInputDelta():
                return self._calls.delta(event)
            case ResponseMetadata():
                return self._frames.begin(event)
            case TextStart():
                return self._prose.text_start(event)
            case TextEnd():
                return self._prose.text_end(event)
            case ReasoningStart():
                return self._prose.reasoning_start(event)
            case ReasoningEnd():
                return self._prose.reasoning_end(event)
            case ToolInputStart():
                return self._calls.start(event, event.id)
            case ToolInputEnd():
                return self._calls.end(event)
            case ToolCall():
                return self._calls.call(event)
            case ToolResult():
                return self._calls.result(event)
            case _:
                return self._beside(event)

    def _beside(self, event: Event) -> bytes:
        match event:
            case Source():
                return self._prose.source(event)
            case File():
                return self._file(event)
            case Custom():
                item = told_of(event.provider_metadata).get("item")
                if (
                    event.kind == STEERING
                    or not event.kind.startswith(f"{KEY}.")
                    or not isinstance(item, dict)
                ):
                    return b""
                return self._frames.whole(item, item)
            case ErrorEvent():
                self._error = self._error or event.error
                return b""
            case Finish():
                return self._finish(event)
            case _:
                return b""

    def _file(self, event: File) -> bytes:
        if not isinstance(event.data, bytes):
            return b""
        data = base64.b64encode(event.data).decode()
        if event.media_type.startswith("audio/"):
            return (
                self._frames.begin()
                + self._frames.event("response.audio.delta", delta=data)
                + self._frames.event("response.audio.done")
            )
        if not event.media_type.startswith("image/"):
            return b""
        item = {"id": f"ig_{len(self._frames.output)}", "type": "image_generation_call"}
        made = {"status": "completed", "result": data, "output_format": event.media_type[len("image/") :]}
        return self._frames.whole({**item, **made}, {**item, "status": "in_progress"})

    def _finish(self, event: Finish) -> bytes:
        if self._error is not None and self._error.code in _CUT:
            return b""
        told = {k: v for k, v in told_of(event.provider_metadata).items() if k != "response_id"}
        if event.finish_reason == "error":
            info = self._error or ErrorInfo("server-error", "The model failed.", retryable=True)
            error = error_object(info)
            status = {} if info.status is None else {"status_code": info.status}
            data = self._frames.begin()
            if not told:  # who reads an error reads on no further
                data += self._frames.event("error", error={**error, **status})
            said = {**error, "code": error["code"] or "server_error"}
            usage = None if event.usage == Usage() else write_usage(event.usage)
            return data + self._frames.end("failed", **told, error=said, usage=usage)
        status_, why = ending(event.finish_reason, event.raw_finish_reason)
        details = {"incomplete_details": {"reason": why}} if why else {}
        return self._frames.end(status_, **told, **details, usage=write_usage(event.usage))
