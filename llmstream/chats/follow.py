"""Reading a chat as it grows, each message once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from llmstream.chats.copying import copy_message
from llmstream.chats.history import History
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest

__all__ = ["Follower", "Reset"]


class Reset(msgspec.Struct, frozen=True):
    """The history was replaced: forget what came before, everything follows from the start.

    epoch: how many times the chat has been replaced; replacements in quick succession give one Reset
    """

    epoch: int


class Follower(AsyncIterator[Message | Reset]):
    """Yields what is there from a cursor on, then what is appended, without end.

    It holds nothing between two messages, so leaving the loop needs no closing; and a step that
    is cancelled (by a timeout around `anext`, say) loses no message: the next step goes on.
    A cursor past the end waits until a message stands there.
    """

    def __init__(self, history: History, cursor: int) -> None:
        if cursor < 0:
            raise InvalidRequest(f"a chat is followed from message 0 or later, not from {cursor}")
        self._history = history
        self._cursor = cursor
        self._epoch = history.look().epoch

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Message | Reset:
        while True:
            look = self._history.look(self._cursor)
            if look.epoch != self._epoch:
                self._epoch, self._cursor = look.epoch, 0
                return Reset(look.epoch)
            if look.message is not None:
                self._cursor += 1
                return copy_message(look.message)
            await self._history.changed_since(look.version)
