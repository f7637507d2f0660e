"""Events as the stream that Converse would have sent: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from llmstream.dialects.bedrock_converse.wire import (
    FINISH_METADATA,
    FINISH_REASONS,
    KEY,
    SERVER_TOOL,
    ConverseFrames,
    event_frame,
    write_usage,
)
from llmstream.errors import ErrorInfo
from llmstream.events import (
    ErrorEvent,
    Event,
    File,
    Finish,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    Source,
    StreamStart,
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
from llmstream.serving.wires.aws_errors import exception_frame, exception_type
from llmstream.serving.wires.complete_responses import GrowingTexts, json_input

__all__ = ["BedrockConverseEventEncoder", "complete_response"]


_RAW_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "content_filtered",
    "other": "end_turn",
}


@dataclasses.dataclass(slots=True)
class _Block:
    """A block that has been begun: its index, and whether a delta or a citation of it was sent."""

    index: int
    spoken: bool = False
    cited: bool = False


class BedrockConverseEventEncoder:
    """Writes one answer; blocks are numbered as they open.

    What the wire has no word for (raw events, the loop's own events, what other vendors alone
    know) becomes nothing. After an error nothing more is written, for the vendor closes the
    stream there.
    """

    def __init__(self) -> None:
        self._begun = False
        self._over = False
        self._next_index = 0
        self._open: dict[str, _Block] = {}
        self._inputs: set[str] = set()
        self._text: _Block | None = None

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event."""
        if self._over:
            return b""
        match event:
            case StreamStart() | ResponseMetadata():
                return self._begin()
            case TextStart() | ReasoningStart() | ToolInputStart():
                return self._start(event)
            case TextDelta() | ReasoningDelta() | ToolInputDelta():
                return self._delta(event)
            case TextEnd() | ReasoningEnd() | ToolInputEnd():
                return self._end(event)
            case ToolCall():
                return self._call(event)
            case ToolResult():
                return self._result(event)
            case Source():
                return self._cite(event)
            case File():
                return self._file(event)
            case ErrorEvent():
                return self._fail(event.error)
            case Finish():
                return self._finish(event)
        return b""

    def close(self) -> bytes:
        """The end of the body; the wire has no mark of its own."""
        self._over = True
        return b""

    # frames

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return event_frame("messageStart", {"role": "assistant"})

    def _new_block(self) -> _Block:
        self._next_index += 1
        return _Block(self._next_index - 1)

    def _starts(self, block: _Block, start: dict[str, Any]) -> bytes:
        frame = event_frame("contentBlockStart", {"contentBlockIndex": block.index, "start": start})
        return self._begin() + frame

    def _grows(self, block: _Block, delta: dict[str, Any]) -> bytes:
        block.spoken = True
        return event_frame("contentBlockDelta", {"contentBlockIndex": block.index, "delta": delta})

    def _stops(self, block: _Block) -> bytes:
        return event_frame("contentBlockStop", {"contentBlockIndex": block.index})

    # blocks

    def _start(self, event: TextStart | ReasoningStart | ToolInputStart) -> bytes:
        block = self._new_block()
        self._open[event.id] = block
        if isinstance(event, ToolInputStart):
            self._inputs.add(event.id)
            return self._starts(block, {"toolUse": _tool_use(event, event.id)})
        if isinstance(event, TextStart):
            self._text = block
        return self._begin()

    def _delta(self, event: TextDelta | ReasoningDelta | ToolInputDelta) -> bytes:
        block = self._open.get(event.id)
        if block is None:
            return b""
        if isinstance(event, TextDelta):
            return self._grows(block, {"text": event.delta})
        if isinstance(event, ReasoningDelta):
            return self._grows(block, {"reasoningContent": {"text": event.delta}})
        return self._grows(block, {"toolUse": {"input": event.delta}})

    def _end(self, event: TextEnd | ReasoningEnd | ToolInputEnd) -> bytes:
        block = self._open.pop(event.id, None)
        if block is None or event.incomplete:
            return b""
        told = _told(event.provider_metadata)
        out = b""
        if isinstance(event, TextEnd):
            self._text = None
            if not block.spoken:
                out += self._grows(block, {"text": ""})
            for citation in [] if block.cited else told.get("citations") or ():
                out += self._grows(block, {"citation": citation})
        elif isinstance(event, ReasoningEnd):
            if told.get("signature"):
                out += self._grows(block, {"reasoningContent": {"signature": told["signature"]}})
            if told.get("redacted_data"):
                out += self._grows(block, {"reasoningContent": {"redactedContent": told["redacted_data"]}})
            if not block.spoken:
                out += self._grows(block, {"reasoningContent": {"text": ""}})
        return out + self._stops(block)

    def _call(self, event: ToolCall) -> bytes:
        """Writes a call at once if its input did not stream."""
        if event.tool_call_id in self._inputs:
            return b""
        self._inputs.add(event.tool_call_id)
        block = self._new_block()
        start = self._starts(block, {"toolUse": _tool_use(event, event.tool_call_id)})
        return start + self._grows(block, {"toolUse": {"input": event.input}}) + self._stops(block)

    def _result(self, event: ToolResult) -> bytes:
        """Results of the vendor's tools are blocks; others are the next request's."""
        if not event.provider_executed or event.preliminary:
            return b""
        start: dict[str, Any] = {"toolUseId": event.tool_call_id, **_told(event.provider_metadata)}
        if event.is_error:
            start["status"] = "error"
        block = self._new_block()
        out = self._starts(block, {"toolResult": start})
        pieces = _pieces(event.result)
        return out + (self._grows(block, {"toolResult": pieces}) if pieces else b"") + self._stops(block)

    def _cite(self, event: Source) -> bytes:
        """A citation stands in the text it belongs to; one beside texts is a block of its own."""
        delta = {"citation": _told(event.provider_metadata) or _citation(event)}
        if self._text is not None:
            self._text.cited = True
            spoken = b"" if self._text.spoken else self._grows(self._text, {"text": ""})
            return spoken + self._grows(self._text, delta)
        block = self._new_block()
        return self._begin() + self._grows(block, delta) + self._stops(block)

    def _file(self, event: File) -> bytes:
        kind, _, form = event.media_type.partition("/")
        data: Any = event.data
        if kind != "image" or (isinstance(data, str) and not data.startswith("s3://")):
            return b""
        if isinstance(data, bytes):
            source: dict[str, Any] = {"bytes": base64.b64encode(data).decode()}
        else:
            owner = _told(event.provider_metadata).get("bucket_owner")
            source = {"s3Location": {"uri": data, **({} if owner is None else {"bucketOwner": owner})}}
        block = self._new_block()
        out = self._starts(block, {"image": {"format": form}})
        return out + self._grows(block, {"image": {"source": source}}) + self._stops(block)

    # the end

    def _fail(self, info: ErrorInfo) -> bytes:
        self._over = True
        return exception_frame(exception_type(info), info.message)

    def _finish(self, event: Finish) -> bytes:
        raw = _raw_reason(event)
        if raw is None:
            return self._fail(ErrorInfo("server-error", "the answer ended in an error", retryable=True))
        told = _told(event.provider_metadata)
        stop: dict[str, Any] = {"stopReason": raw} if raw else {}
        if "additional_model_response_fields" in told:
            stop["additionalModelResponseFields"] = told["additional_model_response_fields"]
        last: dict[str, Any] = {name: told[ours] for name, ours in FINISH_METADATA.items() if ours in told}
        if event.usage != Usage():
            last["usage"] = write_usage(event.usage)
        self._over = True
        return self._begin() + event_frame("messageStop", stop) + event_frame("metadata", last)


def _told(metadata: Metadata | None) -> dict[str, Any]:
    return dict((metadata or {}).get(KEY, {}))


def _tool_use(event: ToolInputStart | ToolCall, call_id: str) -> dict[str, Any]:
    start = {"toolUseId": call_id, "name": event.tool_name}
    if event.provider_executed:
        start["type"] = SERVER_TOOL
    return {**start, **_told(event.provider_metadata)}


def _pieces(result: Any) -> list[Any]:
    """A result as the wire has it: pieces of text or JSON."""
    if isinstance(result, list) and all(isinstance(piece, dict) for piece in result):
        return result
    return [{"text": result}] if isinstance(result, str) else [{"json": result}]


def _citation(source: Source) -> dict[str, Any]:
    """A citation made of what we know of a source."""
    title = source.title or source.filename
    citation: dict[str, Any] = {} if title is None else {"title": title}
    if source.url is not None:
        domain = urlsplit(source.url).hostname or ""
        citation["location"] = {"web": {"url": source.url, "domain": domain}}
    return citation


def _raw_reason(event: Finish) -> str | None:
    """The vendor's own reason where it came from there, else its word for ours.

    "" where none was given; None where the answer failed.
    """
    reason, raw = event.finish_reason, event.raw_finish_reason
    if raw is not None:
        meant = FINISH_REASONS.get(raw)
        if reason == (meant or "other") or (reason == "tool-calls" and meant is not None):
            return raw
    if reason == "unknown":
        return ""
    return _RAW_REASONS.get(reason)


# Complete responses: one object of Converse.


def complete_response(body: bytes) -> dict[str, Any]:
    """The answer that the messages of a stream make."""
    frames = ConverseFrames(provider="bedrock", max_bytes=max(1024, len(body)))
    blocks: dict[int, _CompleteResponseBlock] = {}
    last: dict[str, Any] = {}
    for payload in frames.feed_data(body):
        for name, members in msgspec.json.decode(payload, type=dict[str, dict[str, Any]]).items():
            if name in ("messageStop", "metadata"):
                last |= members
            elif name != "messageStart":
                block = blocks.setdefault(members["contentBlockIndex"], _CompleteResponseBlock())
                block.start(members.get("start", {}))
                block.grow(members.get("delta", {}))
    message = {"role": "assistant", "content": [block.content() for block in blocks.values()]}
    return {"output": {"message": message}, "metrics": {"latencyMs": 0}, **last}


class _CompleteResponseBlock:
    """One block of content: what its start and its deltas say, by kind."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._started: dict[str, dict[str, Any]] = {}
        self._said: dict[str, Any] = {}
        self._reasoning: dict[str, Any] = {}
        self._citations: list[Any] = []
        self._results: list[Any] = []

    def start(self, start: dict[str, Any]) -> None:
        self._started |= start

    def grow(self, delta: dict[str, Any]) -> None:
        for kind, value in delta.items():
            if kind == "text":
                self._texts.add(self._said, "text", value)
            elif kind == "citation":
                self._citations.append(value)
            elif kind == "toolResult":
                self._results += value
            elif kind == "toolUse":
                self._texts.add(self._said, "input", value["input"])
            elif kind == "image":
                self._started.setdefault("image", {}).update(value)
            else:
                for name, text in value.items():
                    self._texts.add(self._reasoning, name, text)

    def content(self) -> dict[str, Any]:
        """The block as it stands in a message."""
        self._texts.join()
        started, said = self._started, self._said
        if "toolUse" in started:
            return {"toolUse": {**started["toolUse"], "input": json_input(said.get("input", ""))}}
        if "toolResult" in started:
            return {"toolResult": {**started["toolResult"], "content": self._results}}
        if "image" in started:
            return {"image": started["image"]}
        if self._citations:
            cited = {"content": [{"text": said.get("text", "")}], "citations": self._citations}
            return {"citationsContent": cited}
        if "redactedContent" in self._reasoning:
            return {"reasoningContent": self._reasoning}
        if self._reasoning:
            return {"reasoningContent": {"reasoningText": self._reasoning}}
        return {"text": said.get("text", "")}
