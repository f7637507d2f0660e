"""Bedrock's InvokeModel framing: AWS messages whose payload holds an event's JSON in base64."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import LLMStreamError
from llmstream.framing.aws_event_stream import EventStreamDecoder, Message, encode_message

__all__ = ["InvokeFrames", "exception_frame", "invoke_frame"]

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
            if message.headers.get(":message-type") in ("exception", "error"):
                self.error = self._exception(message)
                return payloads
            payloads.append(_payload(message.payload))
        self.error = self._messages.error
        return payloads

    def _exception(self, message: Message) -> LLMStreamError:
        said: Any
        try:
            said = msgspec.json.decode(message.payload)
        except _UNREADABLE:
            said = message.payload.decode("utf-8", "replace")
        if not isinstance(said, dict):
            said = {"message": str(said or message.headers.get(":error-message", ""))}
        kind = message.headers.get(":exception-type") or message.headers.get(":error-code") or "exception"
        return error_from_value(
            {"type": str(kind), **said}, provider=self._provider, status=_status(str(kind))
        )


def invoke_frame(payload: bytes) -> bytes:
    """One event as a message: the reverse of `InvokeFrames`."""
    body = msgspec.json.encode({"bytes": base64.b64encode(payload).decode()})
    return encode_message(
        {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}, body
    )


def exception_frame(kind: str, message: str) -> bytes:
    """An exception as a message, such as a `throttlingException`."""
    return encode_message(
        {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"},
        msgspec.json.encode({"message": message}),
    )


def _payload(payload: bytes) -> bytes:
    """The event inside; a payload without one is given as it is, for the decoder to judge."""
    try:
        inner = _decode_chunk(payload).bytes
        return payload if inner is None else base64.b64decode(inner, validate=True)
    except (*_UNREADABLE, binascii.Error):
        return payload


def _status(kind: str) -> int | None:
    """The HTTP status of an exception of Bedrock's runtime; its names carry no number.

    source: Amazon Bedrock API reference, InvokeModelWithResponseStream, Errors
    """
    return {
        "internalServerException": 500,
        "modelStreamErrorException": 424,
        "modelTimeoutException": 408,
        "serviceUnavailableException": 503,
        "throttlingException": 429,
        "validationException": 400,
    }.get(kind[:1].lower() + kind[1:])
