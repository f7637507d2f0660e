"""Bedrock's InvokeModel framing: AWS messages whose payload holds an event's JSON in base64."""

from __future__ import annotations

import base64
import binascii

import msgspec

from llmstream.dialects.aws_exceptions import exception_of
from llmstream.errors import LLMStreamError
from llmstream.framing.aws_event_stream import EventStreamDecoder, encode_message

__all__ = ["InvokeFrames", "invoke_frame"]

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class _Chunk(msgspec.Struct):
    bytes: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class InvokeFrames:
    """A framing for `PayloadDecoder`: the payloads are those of the SSE stream.

    error: set by an exception message, or once the bytes are beyond repair
    """

    def __init__(self, *, provider: str, max_bytes: int) -> None:
        self.error: LLMStreamError | None = None
        self._provider = provider
        self._messages = EventStreamDecoder(max_bytes=max_bytes)

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """The event payloads that a slice completes; none after an exception.

        raises: ProtocolError, LimitExceeded where the frames are broken
        """
        payloads: list[bytes] = []
        for message in self._messages.feed(chunk):
            error = exception_of(message, provider=self._provider)
            if error is not None:
                self.error = error
                return payloads
            payloads.append(_payload(message.payload))
        self.error = self._messages.error
        return payloads


def invoke_frame(payload: bytes) -> bytes:
    """One event as a message: the reverse of `InvokeFrames`."""
    body = msgspec.json.encode({"bytes": base64.b64encode(payload).decode()})
    return encode_message(
        {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, body
    )


def _payload(payload: bytes) -> bytes:
    """The event inside; a payload without one is given as it is, for the decoder to judge."""
    try:
        inner = _decode_chunk(payload).bytes
        return payload if inner is None else base64.b64decode(inner, validate=True)
    except (*_UNREADABLE, binascii.Error):
        return payload
