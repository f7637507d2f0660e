"""Converse's framing: AWS messages whose header names the event in the payload."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from llmstream.dialects.aws_exceptions import exception_of
from llmstream.errors import LLMStreamError
from llmstream.framing.aws_event_stream import EventStreamDecoder, Message, encode_message

__all__ = ["ConverseFrames", "event_frame"]


class ConverseFrames:
    """A framing for `PayloadDecoder`: each payload is one JSON object, `{EVENT: MEMBERS}`.

    error: set by an exception message, or once the bytes are beyond repair
    """

    def __init__(self, *, provider: str, max_bytes: int) -> None:
        self.error: LLMStreamError | None = None
        self._provider = provider
        self._messages = EventStreamDecoder(max_bytes=max_bytes)

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """The events that a slice completes; none after an exception.

        raises: ProtocolError, LimitExceeded for bytes that are no event stream
        """
        payloads: list[bytes] = []
        for message in self._messages.feed(chunk):
            error = exception_of(message, provider=self._provider)
            if error is not None:
                self.error = error
                return payloads
            payloads.append(_named(message))
        self.error = self._messages.error
        return payloads


def event_frame(name: str, members: dict[str, Any]) -> bytes:
    """One event as a message: the reverse of `ConverseFrames`."""
    return encode_message(
        {":event-type": name, ":content-type": "application/json", ":message-type": "event"},
        msgspec.json.encode(members),
    )


def _named(message: Message) -> bytes:
    """The event under its name; a message without one names itself, or says nothing."""
    name = message.headers.get(":event-type")
    if not isinstance(name, str):
        return message.payload
    return b"%b%b}" % (_opening(name), message.payload or b"{}")


@functools.lru_cache(maxsize=64)
def _opening(name: str) -> bytes:
    return b"{" + msgspec.json.encode(name) + b":"
