"""What a fragment of a tool call says, whatever types a server gives it, and a call as far as it has come."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any, Final

import msgspec

from llmstream.dialects.surrogates import without_lone_surrogates
from llmstream.events import Metadata

__all__ = [
    "CUSTOM_CALL",
    "OpenCall",
    "as_id",
    "as_index",
    "is_json",
    "json_input",
    "json_text",
    "mint_call_id",
    "plain_input",
]


_STRUCTURE: Final = re.compile(r'["{}\[\]]|\\.?', re.DOTALL)

CUSTOM_CALL: Final = "custom_tool_call"
"""The `type` that metadata gives to a call whose input is plain text, as OpenAI's custom tools have it."""


def mint_call_id() -> str:
    """An id for a call that came without one, unique across responses."""
    return f"call_{secrets.token_hex(12)}"


def is_json(text: str) -> bool:
    """Whether text is one JSON value."""
    try:
        msgspec.json.decode(text)
    except UnicodeEncodeError:  # halves of characters, which are joined before anybody sees them
        return is_json(without_lone_surrogates(text))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


class _Nesting:
    """The brackets and quotes of a JSON text that is still coming; looks at each piece once.

    broken: it will never be a JSON value
    """

    def __init__(self) -> None:
        self.broken = False
        self._seen = 0
        self._depth = 0
        self._quoted = False
        self._escaped = False

    def is_open_after(self, pieces: list[str]) -> bool:
        """Whether a bracket or a quote is open behind the last of these pieces."""
        for piece in pieces[self._seen :]:
            self._look_at(piece)
        self._seen = len(pieces)
        return self._quoted or self._depth > 0

    def _look_at(self, piece: str) -> None:
        start = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        for found in _STRUCTURE.finditer(piece, start):
            sign = found[0]
            if sign[0] == "\\":
                self._escaped = len(sign) == 1
            elif sign == '"':
                self._quoted = not self._quoted
            elif not self._quoted:
                self._depth += 1 if sign in "{[" else -1


class OpenCall:
    """One call as far as it has come.

    wire_id: the first id the server gave; id: ours, set when the input starts to stream
    pieces:  the input so far, size: its bytes, chars: its length
    index:   where it stood first; touched: the chunk that last named it
    placeholder: the text `null` came first; it is the input only if nothing follows
    custom:  metadata of a call whose input is plain text, not JSON; None of all others
    """

    __slots__ = (
        "chars",
        "closed",
        "custom",
        "id",
        "index",
        "metadata",
        "name",
        "nesting",
        "pieces",
        "placeholder",
        "size",
        "touched",
        "wire_id",
    )

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.wire_id: str | None = None
        self.id: str | None = None
        self.name: str | None = None
        self.pieces: list[str] = []
        self.size = 0
        self.chars = 0
        self.nesting: _Nesting | None = None
        self.closed = False
        self.placeholder = False
        self.metadata: Metadata | None = None
        self.custom: Metadata | None = None
        self.touched = -1

    @property
    def input(self) -> str:
        """The input so far."""
        return "".join(self.pieces)

    def has_input(self, text: str) -> bool:
        """Whether this text is the input so far."""
        return len(text) == self.chars and text == self.input

    def is_whole(self) -> bool:
        """Whether the input is one JSON value by now; asked after every piece, it costs as much as once."""
        if self.nesting is None:
            self.nesting = _Nesting()
        if self.nesting.broken or self.nesting.is_open_after(self.pieces):
            return False
        self.nesting.broken = not is_json(self.input)  # what is no value with all closed never becomes one
        return not self.nesting.broken

    def could_be_whole(self) -> bool:
        """A cheap necessary sign: no JSON goes on with `{` right after `}`."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}")


def json_text(arguments: object) -> str:
    """Arguments as JSON text: text as it is, null and {} as nothing, any other value written out."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None or arguments == {}:
        return ""
    try:
        return msgspec.json.encode(arguments).decode()
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(arguments)


def plain_input(text: str, metadata: Metadata | None) -> str | None:
    """The input of a call that some vendor marks as custom; None of all others."""
    for own in (metadata or {}).values():
        if isinstance(own, dict) and own.get("type") == CUSTOM_CALL:
            return str(own.get("input", text))
    return None


def json_input(text: str, metadata: Metadata | None) -> str:
    """The input of a call for a server that takes JSON only: plain text becomes `{"input": "the text"}`."""
    plain = plain_input(text, metadata)
    if plain is None:
        return text or "{}"
    return json.dumps({"input": plain}, ensure_ascii=False, separators=(",", ":"))


def as_id(value: Any) -> str | None:
    """The id of a call; null, "" and "null" mean that there is none."""
    if isinstance(value, str):
        return value if value not in ("", "null") else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def as_index(value: Any) -> int | None:
    """The index of a call, also where it came as text or as 0.0."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) else None
