"""Blocks of a response during accumulation, and the parts that they become."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, Any

import msgspec

from llmstream import events
from llmstream.chats.content import (
    OWN_KEY,
    File,
    Metadata,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.errors import LLMStreamError
from llmstream.events import merge_metadata

if TYPE_CHECKING:
    from llmstream.partial_json import PartialJSON

__all__ = ["Block", "Input", "file_part", "merge_metadata", "result_part", "source_part"]

# The metadata key for data of our own, not a vendor's, on a part or message.

_encode = msgspec.json.Encoder().encode


class Block:
    """One block of text or reasoning."""

    # A StringIO appends a fragment at the cost of `list.append`, but stores no fragments, so memory is
    # proportional to the text. The joined text can be read at any time.

    __slots__ = ("_buffer", "_part", "_type", "closed", "metadata", "write")

    def __init__(self, part_type: type[Text] | type[Reasoning], metadata: Metadata | None) -> None:
        self._type = part_type
        self._buffer = StringIO()
        self._part: Text | Reasoning | None = None
        self.write = self._buffer.write
        self.metadata = metadata
        self.closed = False

    def part(self) -> Part | None:
        """Returns the part so far; None if there is neither text nor metadata (signatures)."""
        if self._part is not None:
            return self._part
        text = self._buffer.getvalue()
        if not text and not self._has_content():
            return None
        part = self._type(text, self.metadata)
        if self.closed:
            # Cached only for a closed block: parts are frozen and shared, so an open block needs a new part
            # at each access.
            self._part = part
        return part

    def merge(self, metadata: Metadata | None) -> None:
        """Adds the metadata of a later event of the block."""
        self.metadata = merge_metadata(self.metadata, metadata)
        self._part = None

    def _has_content(self) -> bool:
        """Whether a block without text has metadata to send back; the vendor's name alone does not count."""
        if self._type is Reasoning:
            return any(key != OWN_KEY for key in self.metadata or ())
        return bool(self.metadata)


class Input:
    """The input of one tool call: raw text until the call is complete, then a ToolCall.

    write: adds a fragment; replaced by `watch`
    """

    __slots__ = ("_buffer", "_call", "_parser", "metadata", "write")

    def __init__(self, metadata: Metadata | None) -> None:
        self._buffer = StringIO()
        self._call: ToolCall | None = None
        self._parser: PartialJSON | None = None  # created on first access
        self.write: Callable[[str], object] = self._buffer.write
        self.metadata = metadata

    @property
    def watched(self) -> bool:
        """Whether fragments are parsed as they arrive."""
        return self._parser is not None

    def watch(self) -> None:
        """Parses the input so far, and from now on each fragment."""
        from llmstream.partial_json import PartialJSON  # imported only for growing inputs

        self._parser = PartialJSON()
        self._parse(self.text)
        self.write = self._write_watched

    @property
    def value(self) -> Any:
        """Returns the value so far of a watched input."""
        return None if self._parser is None else self._parser.value

    def _write_watched(self, fragment: str) -> None:
        self._buffer.write(fragment)
        self._parse(fragment)

    def _parse(self, text: str) -> None:
        assert self._parser is not None  # set by `watch`
        try:
            self._parser.feed(text)
        except LLMStreamError:
            pass  # nested too deeply; the value before that stays

    @property
    def text(self) -> str:
        """Returns the raw input so far; that of the call itself if none was streamed."""
        text = self._buffer.getvalue()
        return self._call.arguments if self._call is not None and not text else text

    def part(self) -> ToolCall | None:
        """Returns the call; None until it is complete."""
        return self._call

    def merge(self, metadata: Metadata | None) -> None:
        """Adds the metadata of a later event of the input."""
        self.metadata = merge_metadata(self.metadata, metadata)

    def complete(self, event: events.ToolCall) -> None:
        """Completes the call. Its own fields override the deltas; a second call changes nothing."""
        if self._call is not None:
            return
        self.merge(event.provider_metadata)
        if event.invalid:
            self.merge({OWN_KEY: {"invalid": True}})
        # A call without deltas: parse its input here, or a watcher would never get a value.
        if self._parser is not None and not self.text:
            self._parse(event.input)
        self._call = ToolCall(
            event.tool_call_id, event.tool_name, event.input, event.provider_executed, self.metadata
        )


def result_part(event: events.ToolResult) -> ToolResult:
    """Converts a tool result to a part; a structured result is stored as JSON text and as the value."""
    content = event.result if isinstance(event.result, str) else _json_text(event.result)
    return ToolResult(
        event.tool_call_id,
        content,
        event.is_error,
        event.tool_name,
        result=event.result if event.provider_executed else None,
        provider_executed=event.provider_executed,
        metadata=event.provider_metadata,
    )


def file_part(event: events.File | events.ReasoningFile) -> File:
    """Converts a file to a part; one that belongs to reasoning is marked under our own metadata key."""
    metadata = event.provider_metadata
    if isinstance(event, events.ReasoningFile):
        metadata = merge_metadata(metadata, {OWN_KEY: {"reasoning": True}})
    # An event holds a URL or bytes in one field; a part has a field for each.
    if isinstance(event.data, bytes):
        return File(event.media_type, data=event.data, metadata=metadata)
    return File(event.media_type, url=event.data, metadata=metadata)


def source_part(event: events.Source) -> Source:
    """Converts a source to a part."""
    return Source(
        event.source_type,
        event.id,
        event.url or "",
        event.title or "",
        event.media_type or "",
        event.filename or "",
        event.provider_metadata,
    )


def _json_text(value: Any) -> str:
    if value is None:
        return ""
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)
