"""Writes events as a stream of Converse: the reverse of `decoder.py`."""

from __future__ import annotations

import base64
import dataclasses
import itertools
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from llmstream.dialects.bedrock_converse.wire import (
    FINISH_METADATA,
    FINISH_REASONS,
    KEY,
    SERVER_TOOL,
    converse_frames,
    event_frame,
    write_usage,
)
from llmstream.errors import ErrorInfo
from llmstream.events import (
    File,
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    ResponseMetadata,
    Source,
    StreamStart,
    TextDelta,
    TextEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.server_side.wires.errors import exception_frame, exception_type
from llmstream.server_side.wires.event_writer import (
    Block,
    Delta,
    End,
    GrowingTexts,
    Part,
    Shapes,
    Start,
    json_input,
    raw_reason,
)

__all__ = ["ConverseShapes", "complete_response"]


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "content_filtered",
    "other": "end_turn",
    "unknown": "",
}


@dataclasses.dataclass(slots=True)
class ContentBlock(Block):
    """An open content block.

    grown: a delta of it was written
    cited: a citation of it was written
    """

    grown: bool = False
    cited: bool = False


class ConverseShapes(Shapes[ContentBlock]):
    """Numbered content blocks between `messageStart` and `messageStop`.

    Left out, because the wire cannot express it: raw events, files that are not images, and metadata of
    other vendors.
    """

    key = KEY
    # `messageStart` has only the role, so it need not wait for the model's name.
    begins_at = (StreamStart, ResponseMetadata)

    def __init__(self) -> None:
        self._indexes = itertools.count()

    def begin(self) -> bytes:
        """Writes `messageStart`."""
        return event_frame("messageStart", {"role": "assistant"})

    def start(self, event: Start) -> tuple[ContentBlock, bytes]:
        """Opens a block. Only calls have a start on this wire; other blocks begin with their first delta."""
        if not isinstance(event, ToolInputStart):
            return self._new_block(), b""
        tool_use = {"toolUseId": event.id, "name": event.tool_name}
        if event.provider_executed:
            tool_use["type"] = SERVER_TOOL
        return self._open({"toolUse": {**tool_use, **self.own(event.provider_metadata)}})

    def delta(self, block: ContentBlock, event: Delta) -> bytes:
        """Extends a block."""
        if isinstance(event, TextDelta):
            return self._grow(block, {"text": event.delta})
        if isinstance(event, ReasoningDelta):
            return self._grow(block, {"reasoningContent": {"text": event.delta}})
        return self._grow(block, {"toolUse": {"input": event.delta}})

    def end(self, block: ContentBlock, event: End) -> bytes:
        """Closes a block; one without a start needs a delta, or the client would not know its kind."""
        own = self.own(event.provider_metadata)
        out = b""
        if isinstance(event, TextEnd):
            out = b"" if block.grown else self._grow(block, {"text": ""})
            for citation in [] if block.cited else own.get("citations") or ():
                out += self._grow(block, {"citation": citation})
        elif isinstance(event, ReasoningEnd):
            if own.get("signature"):
                out += self._grow(block, {"reasoningContent": {"signature": own["signature"]}})
            if own.get("redacted_data"):
                out += self._grow(block, {"reasoningContent": {"redactedContent": own["redacted_data"]}})
            if not block.grown:
                out += self._grow(block, {"reasoningContent": {"text": ""}})
        return out + self._stop(block)

    def result(self, event: ToolResult) -> bytes:
        """Writes the result of the vendor's tool as a block of its own."""
        start: dict[str, Any] = {"toolUseId": event.tool_call_id, **self.own(event.provider_metadata)}
        if event.is_error:
            start["status"] = "error"
        block, out = self._open({"toolResult": start})
        pieces = _pieces(event.result)
        return out + (self._grow(block, {"toolResult": pieces}) if pieces else b"") + self._stop(block)

    def part(self, event: Part, block: ContentBlock | None) -> bytes:
        """Writes a citation or an image."""
        if isinstance(event, Source):
            return self._cite(event, block)
        return self._image(event) if isinstance(event, File) else b""

    def _cite(self, event: Source, block: ContentBlock | None) -> bytes:
        """Writes a citation into its text; without an open text it is a block of its own."""
        delta = {"citation": self.own(event.provider_metadata) or _citation(event)}
        if block is None:
            block = self._new_block()
            return self._grow(block, delta) + self._stop(block)
        block.cited = True
        # A block that begins with a citation would have no kind for the client.
        text = b"" if block.grown else self._grow(block, {"text": ""})
        return text + self._grow(block, delta)

    def _image(self, event: File) -> bytes:
        kind, _, image_format = event.media_type.partition("/")
        data: Any = event.data
        # Converse has no source for other addresses.
        if kind != "image" or (isinstance(data, str) and not data.startswith("s3://")):
            return b""
        if isinstance(data, bytes):
            source: dict[str, Any] = {"bytes": base64.b64encode(data).decode()}
        else:
            owner = self.own(event.provider_metadata).get("bucket_owner")
            source = {"s3Location": {"uri": data, **({} if owner is None else {"bucketOwner": owner})}}
        block, out = self._open({"image": {"format": image_format}})
        return out + self._grow(block, {"image": {"source": source}}) + self._stop(block)

    def ends_at(self, error: ErrorInfo) -> bool:
        """The vendor closes the stream at any error."""
        return True

    def error(self, error: ErrorInfo) -> bytes:
        """Writes an exception."""
        return exception_frame(exception_type(error), error.message)

    def finish(self, event: Finish, error: ErrorInfo | None) -> bytes | None:
        """Writes `messageStop` and `metadata`."""
        raw = raw_reason(event, FINISH_REASONS.get, _RAW_REASONS)
        if raw is None:
            return None
        own = self.own(event.provider_metadata)
        stop: dict[str, Any] = {"stopReason": raw} if raw else {}
        if "additional_model_response_fields" in own:
            stop["additionalModelResponseFields"] = own["additional_model_response_fields"]
        last: dict[str, Any] = {name: own[ours] for name, ours in FINISH_METADATA.items() if ours in own}
        if event.usage != Usage():
            last["usage"] = write_usage(event.usage)
        return event_frame("messageStop", stop) + event_frame("metadata", last)

    def _new_block(self) -> ContentBlock:
        return ContentBlock(next(self._indexes))

    def _open(self, start: dict[str, Any]) -> tuple[ContentBlock, bytes]:
        block = self._new_block()
        return block, event_frame("contentBlockStart", {"contentBlockIndex": block.index, "start": start})

    def _grow(self, block: ContentBlock, delta: dict[str, Any]) -> bytes:
        block.grown = True
        return event_frame("contentBlockDelta", {"contentBlockIndex": block.index, "delta": delta})

    def _stop(self, block: ContentBlock) -> bytes:
        return event_frame("contentBlockStop", {"contentBlockIndex": block.index})


def _pieces(result: Any) -> list[Any]:
    """Converts a result to the wire's list of text and JSON."""
    if isinstance(result, list) and all(isinstance(piece, dict) for piece in result):
        return result
    return [{"text": result}] if isinstance(result, str) else [{"json": result}]


def _citation(source: Source) -> dict[str, Any]:
    """Builds a citation from another vendor's source."""
    title = source.title or source.filename
    citation: dict[str, Any] = {} if title is None else {"title": title}
    if source.url is not None:
        domain = urlsplit(source.url).hostname or ""
        citation["location"] = {"web": {"url": source.url, "domain": domain}}
    return citation


# Complete responses: one object of Converse.


def complete_response(body: bytes) -> dict[str, Any]:
    """Builds the response of Converse from the messages of a stream."""
    frames = converse_frames(provider="bedrock", max_bytes=max(1024, len(body)))
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
    # AWS's model of the response requires metrics.
    return {"output": {"message": message}, "metrics": {"latencyMs": 0}, **last}


class _CompleteResponseBlock:
    """One block of content: its start and deltas, by kind."""

    def __init__(self) -> None:
        self._texts = GrowingTexts()
        self._started: dict[str, dict[str, Any]] = {}
        self._fragments: dict[str, Any] = {}
        self._reasoning: dict[str, Any] = {}
        self._citations: list[Any] = []
        self._results: list[Any] = []

    def start(self, start: dict[str, Any]) -> None:
        self._started |= start

    def grow(self, delta: dict[str, Any]) -> None:
        for kind, value in delta.items():
            if kind == "text":
                self._texts.add(self._fragments, "text", value)
            elif kind == "citation":
                self._citations.append(value)
            elif kind == "toolResult":
                self._results += value
            elif kind == "toolUse":
                self._texts.add(self._fragments, "input", value["input"])
            elif kind == "image":
                self._started.setdefault("image", {}).update(value)
            else:
                for name, text in value.items():
                    self._texts.add(self._reasoning, name, text)

    def content(self) -> dict[str, Any]:
        """Returns the block as part of a message."""
        self._texts.join()
        started, fragments = self._started, self._fragments
        if "toolUse" in started:
            return {"toolUse": {**started["toolUse"], "input": json_input(fragments.get("input", ""))}}
        if "toolResult" in started:
            return {"toolResult": {**started["toolResult"], "content": self._results}}
        if "image" in started:
            return {"image": started["image"]}
        # Converse has cited text as a kind of its own in a complete response.
        if self._citations:
            cited = {"content": [{"text": fragments.get("text", "")}], "citations": self._citations}
            return {"citationsContent": cited}
        if "redactedContent" in self._reasoning:
            return {"reasoningContent": self._reasoning}
        if self._reasoning:
            return {"reasoningContent": {"reasoningText": self._reasoning}}
        return {"text": fragments.get("text", "")}
