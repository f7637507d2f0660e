"""Nine wires from one script: what each vendor would say, in the bytes of its own event encoder."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

import llmstream as ls
from llmstream.cli.config import INVENTORS, wire_of
from llmstream.dialects.base import DIALECTS, Dialect
from llmstream.errors import ErrorInfo
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.framing.aws_event_stream import EventStreamDecoder, encode_message
from llmstream.request import Request
from llmstream.server_side.wires import server_side

USAGE = Usage(3, 2, 5)
OVERLOADED = ErrorInfo("overloaded", "Overloaded", True, status=529, reason="overloaded_error")


@dataclasses.dataclass(frozen=True, repr=False)
class Wire:
    """What one vendor says, in pieces that are whole events of its wire."""

    name: str
    provider: str
    dialect: Dialect

    def __repr__(self) -> str:
        return self.name

    @property
    def framing(self) -> str:
        """sse, ndjson or aws."""
        return {"text/event-stream": "sse", "application/x-ndjson": "ndjson"}.get(self.content_type, "aws")

    @property
    def content_type(self) -> str:
        return self.dialect.content_type

    def said(self, *events: Event) -> list[bytes]:
        """The bytes of each event, and those of the end."""
        encoder = server_side(self.dialect).event_encoder(
            Request(model="m", messages=(ls.Message.user("Hi"),))
        )
        return [*(encoder.feed(event) for event in events), encoder.close()]

    def pieces(self, *deltas: str, reason: Any = "stop") -> list[bytes]:
        """A text answer: its opening, each delta, its closing."""
        texts = [TextDelta(delta, "0") for delta in deltas]
        start: list[Event] = [ResponseMetadata("m", "r1"), TextStart("0")]
        said = self.said(*start, *texts, TextEnd("0"), Finish(reason, USAGE))
        return [b"".join(said[:2]), *said[2 : 2 + len(texts)], b"".join(said[2 + len(texts) :])]

    @functools.cached_property
    def opening(self) -> bytes:
        """What comes before the first text."""
        return self.pieces("Hel", "lo")[0]

    @functools.cached_property
    def half(self) -> bytes:
        """The beginning of an answer: "Hel"."""
        return b"".join(self.pieces("Hel", "lo")[:2])

    @functools.cached_property
    def lo(self) -> bytes:
        """The second piece of its text: "lo"."""
        return self.pieces("Hel", "lo")[2]

    @functools.cached_property
    def closing(self) -> bytes:
        """What ends it."""
        return self.pieces("Hel", "lo")[3]

    @property
    def rest(self) -> bytes:
        """What makes it whole."""
        return self.lo + self.closing

    @property
    def whole(self) -> bytes:
        """ "Hello"."""
        return self.half + self.rest

    def text(self, text: str) -> bytes:
        """Any text between opening and closing."""
        return self.pieces("Hel", text, "lo")[2]

    def calls(self, *inputs: str, reason: Any = "tool-calls", ended: bool = True) -> bytes:
        """An answer that calls `look` with each input as it stands; `ended`: the wire says that they end."""
        events: list[Event] = [ResponseMetadata("m", "r1")]
        for number, text in enumerate(inputs):
            call_id = f"call_{number}abcdefgh"
            events += [ToolInputStart("look", call_id), ToolInputDelta(text, call_id)]
            if ended:
                events += [ToolInputEnd(call_id), ToolCall("look", text, call_id)]
            else:
                events += [ToolInputEnd(call_id, incomplete=True)]
        return b"".join(self.said(*events, Finish(reason, USAGE)))

    @functools.cached_property
    def refusal(self) -> bytes:
        """A body whose first event says that the vendor is overloaded."""
        return b"".join(self.said(ErrorEvent(OVERLOADED), Finish("error", Usage())))

    @functools.cached_property
    def broken(self) -> bytes:
        """ "Hel", then the vendor's word that it is overloaded."""
        start: list[Event] = [
            ResponseMetadata("m", "r1"),
            TextStart("0"),
            TextDelta("Hel", "0"),
            TextEnd("0"),
        ]
        return b"".join(self.said(*start, ErrorEvent(OVERLOADED), Finish("error", USAGE)))

    def frame(self, payload: bytes, name: str = "") -> bytes:
        """A payload as one event of the wire, whatever it holds.

        name: the event's own, where the framing has names
        """
        if self.framing == "ndjson":
            return payload + b"\n"
        if self.framing == "aws":
            headers = {":message-type": "event", ":event-type": name or "contentBlockDelta"}
            return encode_message(headers, payload)
        return (f"event: {name}\n" if name else "").encode() + b"data: " + payload + b"\n\n"

    def altered(self, body: bytes, old: bytes, new: bytes) -> bytes:
        """A body with bytes in its payloads replaced; framed anew where the framing counts."""
        if self.framing != "aws":
            return body.replace(old, new)
        messages = EventStreamDecoder().feed(body)
        return b"".join(encode_message(m.headers, m.payload.replace(old, new)) for m in messages)

    def error_body(self, status: int) -> bytes:
        """The vendor's JSON for a refusal with that status."""
        kind = {401: "authentication", 429: "rate-limited", 529: "overloaded"}.get(status, "server-error")
        return server_side(self.dialect).encode_error(ErrorInfo(kind, "no", False, status=status)).body

    def model(self, url: str, **options: Any) -> ls.Model:
        """The vendor's model at another address."""
        return ls.Model(f"{self.provider}:m", base_url=url, **options)


def _wire(name: str) -> Wire:
    return Wire(name, INVENTORS[name], wire_of(name, None).dialect)


WIRES = {name: _wire(name) for name in DIALECTS}


def sse(value: object, name: str = "") -> bytes:
    """One event of an SSE wire, by hand."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(value).encode() + b"\n\n"
