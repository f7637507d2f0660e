"""Ids of calls in the letters that Bedrock and the model behind it take."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from typing import Final

__all__ = ["CallIds"]

_FITTING: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_SHORT: Final = re.compile(r"[a-zA-Z0-9]{9}")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.:-]")
_MAX_CHARS: Final = 64  # of `toolUseId`, from the API reference


class CallIds:
    """Maps ids of any vendor, in the order of the conversation: a call, then its result.

    Some servers use an id again in a later turn; each call gets a name of its own all the same,
    and a result has that of the first call of its id that has none.

    short: the model takes nine letters and digits only
    """

    def __init__(self, *, short: bool) -> None:
        self._short = short
        self._waiting: dict[str, deque[str]] = {}
        self._latest: dict[str, str] = {}
        self._taken: set[str] = set()
        self._turns: dict[str, int] = {}

    def of_call(self, call_id: str) -> str:
        """The id of one more call on the wire."""
        name = self._fitted(call_id)
        while name in self._taken:
            turn = self._turns[call_id] = self._turns.get(call_id, 0) + 1
            name = self._digest(f"{call_id}#{turn}")
        self._taken.add(name)
        self._latest[call_id] = name
        self._waiting.setdefault(call_id, deque()).append(name)
        return name

    def of_result(self, call_id: str) -> str:
        """The id of the call that a result answers; of none where there is no such call."""
        waiting = self._waiting.get(call_id)
        return waiting.popleft() if waiting else self._latest.get(call_id) or self._fitted(call_id)

    def _fitted(self, call_id: str) -> str:
        if (_SHORT if self._short else _FITTING).fullmatch(call_id):
            return call_id
        return self._digest(call_id)

    def _digest(self, call_id: str) -> str:
        digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
        if self._short:
            return digest[:9]
        stem = _FOREIGN.sub("_", call_id)[: _MAX_CHARS - 17]
        return f"{stem}-{digest[:16]}" if stem else f"call-{digest[:16]}"
