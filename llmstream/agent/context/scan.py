"""Values along a conversation that grows, each found once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

from llmstream.chats.message import Message

__all__ = ["Scan"]

V = TypeVar("V")

_content = attrgetter("sender", "role", "parts", "metadata")


class Scan(Generic[V]):
    """Gives a value for each message, which follows from the one before it.

    An effect is given the whole conversation at each step of a run; without this it would look
    through all of it again. Messages of before are compared with today's, in C and mostly by
    identity: where one was exchanged or changed, the scan begins anew.

    start: before the first message
    next:  the value of a message, given that of the one before
    """

    def __init__(self, start: V, next: Callable[[V, Message], V]) -> None:
        self._start = start
        self._next = next
        self._known: list[Any] = []
        self._values = [start]

    def of(self, messages: Sequence[Message]) -> list[V]:
        """The value before each message, and that at the end: one more than there are messages."""
        known = self._known
        if list(map(_content, messages[: len(known)])) != known:
            known.clear()
            self._values = [self._start]
        values = self._values
        for message in messages[len(known) :]:
            values.append(self._next(values[-1], message))
            known.append(_content(message))
        return values
