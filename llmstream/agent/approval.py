"""Calls that wait for a person, and the digest that binds a decision to just those arguments."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from llmstream.agent.decisions import Approve, Deny
from llmstream.chats.content import ToolCall

__all__ = ["Approver", "PendingCall", "digest_of"]

_encode = msgspec.json.Encoder().encode


class PendingCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that has not run, and what it waits for.

    arguments:   raw JSON text, just as it will run
    approval_id: what a decision names it by; "" where it waits for a result from elsewhere
    digest:      over all of the above and the suspension; "" before there is one

    Printed, it shows the exact arguments; control and direction characters in them are escaped.
    """

    call_id: str
    name: str
    arguments: str
    approval_id: str = ""
    digest: str = ""

    @property
    def call(self) -> ToolCall:
        """The call itself."""
        return ToolCall(self.call_id, self.name, self.arguments)

    def __str__(self) -> str:
        return f"{_shown(self.name)}({_shown(self.arguments)})"


Approver: TypeAlias = Callable[
    [PendingCall], Approve | Deny | bool | Awaitable[Approve | Deny | bool | None] | None
]
"""Asked for a person's decision while the run goes on; None leaves it open, and the run is suspended."""


def digest_of(key: bytes | None, *words: str | bytes) -> str:
    """An HMAC-SHA256 over the words, or without a key a SHA-256, as hexadecimal digits.

    Only the first proves that nobody else has written them.
    """
    data = _encode([w if isinstance(w, str) else hashlib.sha256(w).hexdigest() for w in words])
    if key is None:
        return hashlib.sha256(data).hexdigest()
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
