"""Framing: bytes of a body in, complete frames out, without I/O, wherever chunks are cut."""

from __future__ import annotations

from llmstream.framing.aws_event_stream import EventStreamDecoder, HeaderValue, Message, encode_message
from llmstream.framing.ndjson import NDJSONDecoder
from llmstream.framing.sse import Frame, SSEDecoder

__all__ = [
    "EventStreamDecoder",
    "Frame",
    "HeaderValue",
    "Message",
    "NDJSONDecoder",
    "SSEDecoder",
    "encode_message",
]
