"""Writes events as a Responses stream, item by item as OpenAI does."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from llmstream.chats.message import Message, Role
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.request import encode_request
from llmstream.dialects.openai_responses.sockets import KIND as STEERING
from llmstream.dialects.openai_responses.wire import KEY, ending, write_usage
from llmstream.errors import CallerError, ErrorInfo
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
from llmstream.request import Request
from llmstream.server_side.wires.errors import openai_error_object
from llmstream.server_side.wires.event_writer import MODEL_FAILED, sse_objects
from llmstream.server_side.wires.openai_responses.item_writer import (
    CallEncoder,
    Frames,
    ProseEncoder,
    own_metadata,
)

__all__ = ["ResponseWriter", "complete_response", "repeated_settings"]


# Errors that are represented by a truncated body.
_CUT: Final = frozenset({"incomplete-stream", "connection-lost"})


class ResponseWriter:
    """Writes the events of one response as server-sent events; see `server_side.wires.EventEncoder`.

    background, repeated: see `Frames`

    The wire cannot express warnings, or results of tools that the caller ran. An error event is written if it
    ends the stream.
    """

    def __init__(
        self, *, model: str, background: bool = False, repeated: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._frames = Frames(model, background=background, repeated=repeated)
        self._calls = CallEncoder(self._frames)
        self._prose = ProseEncoder(self._frames)
        self._error: ErrorInfo | None = None

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event; b"" if the wire cannot express it."""
        return self._prose.settle(event) + self._write(event)

    def close(self) -> bytes:
        """Returns b"": the last event ends the body."""
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
                item = own_metadata(event.provider_metadata).get("item")
                if (
                    event.kind == STEERING
                    or not event.kind.startswith(f"{KEY}.")
                    or not isinstance(item, dict)
                ):
                    return b""
                return self._frames.in_one_piece(item, item)
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
        return self._frames.in_one_piece({**item, **made}, {**item, "status": "in_progress"})

    def _finish(self, event: Finish) -> bytes:
        # The client must get what the vendor's client got: a body without an end.
        if self._error is not None and self._error.code in _CUT:
            return b""
        own = {k: v for k, v in own_metadata(event.provider_metadata).items() if k != "response_id"}
        if event.finish_reason == "error":
            info = self._error or MODEL_FAILED
            error = openai_error_object(info)
            status = {} if info.status is None else {"status_code": info.status}
            data = self._frames.begin()
            # Clients stop reading at an error.
            if not own:
                data += self._frames.event("error", error={**error, **status})
            failure = {**error, "code": error["code"] or "server_error"}
            usage = None if event.usage == Usage() else write_usage(event.usage)
            return data + self._frames.end("failed", **own, error=failure, usage=usage)
        status_, why = ending(event.finish_reason, event.raw_finish_reason)
        details = {"incomplete_details": {"reason": why}} if why else {}
        return self._frames.end(status_, **own, **details, usage=write_usage(event.usage))


# Complete responses: the `response` object of the last event.


def complete_response(body: bytes) -> dict[str, Any]:
    """Returns the latest `response` object of a stream."""
    last: dict[str, Any] = {}
    for event in sse_objects(body):
        last = event.get("response", last)
    return last


# Fields of the request that a response repeats: OpenAI's response object has the settings of its request.
#
# Clients read them: langchain-openai parses a response only if it has the schema of its request, and
# openai-node compares the tools.

_SETTINGS: Final = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "safety_identifier",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
# Fields in which the vendor adds its defaults.
_INSIDE: Final = ("reasoning", "text")

# Instead of the conversation, which responses do not repeat. JSON mode requires the word.
_PROMPT: Final = Message.user("Answer as json.")


def repeated_settings(request: Request, quirks: Quirks, *, provider: str) -> dict[str, Any]:
    """Returns the settings of a request, as fields of the response object.

    provider: key in `provider_options` of the vendor's own fields
    """
    leading = []
    for message in request.messages:
        if message.role != Role.SYSTEM:
            break
        leading.append(message)
    try:
        short = msgspec.structs.replace(request, messages=(*leading, _PROMPT))
        body = encode_request(short, quirks, provider=provider).http.json()
    except CallerError:
        # The request was made on another wire.
        return {}
    out = {name: body[name] for name in _SETTINGS if body.get(name) is not None}
    out |= {name: body[name] for name in _INSIDE if isinstance(body.get(name), dict)}
    if "tools" in out:
        out["tools"] = [{"strict": True, **t} if t.get("type") == "function" else t for t in out["tools"]]
    return out
