"""Ids for calls that come without one, on wires that match calls and results by their order.

A minted id is told by its prefix, so that it never goes back to the vendor as if it were its own.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from typing import Final

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message

__all__ = ["ShortCallIds", "is_minted", "mint_call_id"]


_PREFIX: Final = "minted-"


def mint_call_id() -> str:
    """A new id, unique across responses."""
    return f"{_PREFIX}{secrets.token_hex(10)}"


def is_minted(call_id: str) -> bool:
    """Whether an id is one of ours."""
    return call_id.startswith(_PREFIX)


# Ids of calls in the form of Mistral's models: nine letters and digits.
#
# An id that has this form stays; any other is replaced, the same for the call and its result, and
# never by an id that stands elsewhere in the request.

_FITS: Final = re.compile(r"[a-zA-Z0-9]{9}")
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH: Final = 9


class ShortCallIds:
    """The ids of one request.

    messages: the whole conversation; equal conversations get equal ids
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        found = [name for message in messages for part in message.parts if (name := _id_of(part)) is not None]
        self._wire: dict[str, str] = {name: name for name in found if _FITS.fullmatch(name)}
        taken = set(self._wire)
        for name in found:
            if name not in self._wire:
                self._wire[name] = _replacement(name, taken)
                taken.add(self._wire[name])

    def __getitem__(self, call_id: str) -> str:
        """The id as it goes to the vendor."""
        return self._wire[call_id]


def _id_of(part: object) -> str | None:
    if isinstance(part, ToolCall):
        return part.id
    return part.tool_call_id if isinstance(part, ToolResult) else None


def _replacement(name: str, taken: set[str]) -> str:
    """A digest of the id, so that it stays the same while the conversation grows."""
    attempt = 0
    while True:
        seed = f"{attempt}:{name}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.sha256(seed).digest()[:8], "big")
        wire = ""
        for _ in range(_LENGTH):
            number, place = divmod(number, len(_LETTERS))
            wire += _LETTERS[place]
        if wire not in taken:
            return wire
        attempt += 1
