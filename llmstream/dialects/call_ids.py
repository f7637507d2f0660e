"""Ids of tool calls: minted for wires without ids, and shortened for Mistral's models.

Wires without ids match calls and results by order. A minted id has a prefix of its own, so that it is
never sent to the vendor.
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
    """Returns a new id, unique across responses."""
    return f"{_PREFIX}{secrets.token_hex(10)}"


def is_minted(call_id: str) -> bool:
    """Whether `mint_call_id` made the id."""
    return call_id.startswith(_PREFIX)


# Call ids for Mistral's models: nine letters and digits.
#
# An id of this form is not changed. Any other is replaced, the same way for the call and its result, and
# never by an id that is used elsewhere in the request.

_FITS: Final = re.compile(r"[a-zA-Z0-9]{9}")
_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH: Final = 9


class ShortCallIds:
    """Maps the call ids of one request.

    messages: all of the conversation; equal conversations get equal ids
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
        """Returns the id to send to the vendor."""
        return self._wire[call_id]


def _id_of(part: object) -> str | None:
    if isinstance(part, ToolCall):
        return part.id
    return part.tool_call_id if isinstance(part, ToolResult) else None


def _replacement(name: str, taken: set[str]) -> str:
    # A digest stays the same while the conversation grows.
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
