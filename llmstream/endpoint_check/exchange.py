"""What can be seen of one response: its HTTP head, the reads of its body with their times, its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    StreamStart,
    TextDelta,
    ToolCall,
    Warning,
)
from llmstream.framing.ndjson import NDJSONDecoder
from llmstream.framing.sse import SSEDecoder
from llmstream.usage import Usage

__all__ = ["Exchange", "Read"]

_E = TypeVar("_E", bound=Event)

_MAX_EVENT_BYTES: Final = 16 * 1024 * 1024


class Read(NamedTuple):
    """What one read of the socket gave, and when, in seconds since the request."""

    at_s: float
    data: bytes


@dataclass
class Exchange:
    """One request and its response.

    status:     None without a response
    headers:    of the response, names in lower case
    reused:     whether the connection had served before; None if that is not known
    reads:      of the body of a successful response; of one JSON value, in the form of a stream
    error_body: of a refusal
    content_s:  times of the batches with content, in seconds since the request
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reused: bool | None = None
    reads: list[Read] = field(default_factory=list)
    error_body: bytes = b""
    events: list[Event] = field(default_factory=list)
    content_s: list[float] = field(default_factory=list)
    error: LLMStreamError | None = None
    total_s: float = 0.0

    def all(self, kind: type[_E]) -> list[_E]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @cached_property
    def body(self) -> bytes:
        """The body of a successful response."""
        return b"".join(read.data for read in self.reads)

    @property
    def text(self) -> str:
        """The text of the response."""
        return "".join(event.delta for event in self.all(TextDelta))

    @property
    def reasoning(self) -> str:
        """The reasoning of the response."""
        return "".join(event.delta for event in self.all(ReasoningDelta))

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls that the program has to run."""
        return [call for call in self.all(ToolCall) if not call.provider_executed]

    @property
    def finish(self) -> Finish:
        """The last event."""
        return next(iter(self.all(Finish)), Finish("unknown"))

    @property
    def usage(self) -> Usage:
        """The reported usage."""
        return self.finish.usage

    @property
    def warnings(self) -> list[Warning]:
        """What the request left out or changed."""
        return [warning for start in self.all(StreamStart) for warning in start.warnings]

    @property
    def defects(self) -> list[str]:
        """Messages of the events that could not be decoded."""
        return [event.error.message for event in self.all(ErrorEvent) if event.error.code == "decode-error"]

    @property
    def media_type(self) -> str:
        """Of the response, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def message(self) -> Message:
        """The response as a message of the conversation, complete or not."""
        accumulator = Accumulator()
        accumulator.feed_many(self.events)
        return accumulator.partial

    @cached_property
    def payloads(self) -> list[bytes]:
        """The frames of a body of SSE or NDJSON; none of other bodies."""
        try:
            if "ndjson" in self.media_type:
                return NDJSONDecoder(max_bytes=_MAX_EVENT_BYTES).feed_data(self.body + b"\n")
            if "aws" not in self.media_type:
                return SSEDecoder(_MAX_EVENT_BYTES).feed_data(self.body + b"\n\n")
        except LLMStreamError:
            pass
        return []

    @cached_property
    def frames(self) -> list[dict[str, Any]]:
        """The frames that are JSON objects."""
        found = []
        for payload in self.payloads:
            try:
                value = msgspec.json.decode(payload)
            except (msgspec.MsgspecError, ValueError):
                continue
            if isinstance(value, dict):
                found.append(value)
        return found
