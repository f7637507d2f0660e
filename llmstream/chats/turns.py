"""What a stream or a run adds to a chat while it is read: the prompt, then each complete message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from llmstream.chats.message import Message

if TYPE_CHECKING:
    import msgspec

__all__ = ["ChatTurn", "PlainTurn", "logged_run"]

# A context variable, so that no function between a log and a chat has to pass it.
logged_run: ContextVar[str] = ContextVar("llmstream_logged_run", default="")
"""The id under which an event log keeps the run that is read in this context; "" outside of one."""


class ChatTurn(Protocol):
    """Receives a turn as it is read. Chats that are stored have their own, which survives a crash."""

    def begin(self, prompt: Sequence[Message]) -> None:
        """Adds the prompt, before anything is sent. What it raises ends the stream."""

    def feed(self, events: Sequence[msgspec.Struct]) -> None:
        """Receives events before the reader sees them. Raises nothing."""

    def add(self, messages: Sequence[Message]) -> None:
        """Adds what follows: a response that is over or was left, results of its calls. Raises nothing.

        Without messages it only ends the response whose events have come.
        """


class PlainTurn:
    """The turn of a chat in memory: messages only, by its `append`."""

    def __init__(self, append: Callable[..., None]) -> None:
        self._append = append

    def begin(self, prompt: Sequence[Message]) -> None:
        """As in `ChatTurn`."""
        self.add(prompt)

    def feed(self, events: Sequence[msgspec.Struct]) -> None:
        """Does nothing: a chat in memory has no more to lose than its process."""

    def add(self, messages: Sequence[Message]) -> None:
        """As in `ChatTurn`."""
        if messages:
            self._append(*messages)
