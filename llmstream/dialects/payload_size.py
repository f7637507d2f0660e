"""Estimates memory: of a payload once it is decoded, without decoding it; of a value that a decoder holds.

A few bytes of the wire can become many of memory: `{},` an object of 64 bytes, `"k1":1,` some 120 bytes
of a dict, and one emoji makes each character of its string take 4 bytes. The cap on an event alone would
allow hundreds of megabytes; images and audio, which are one long string of base64, need that cap.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final, Protocol

__all__ = [
    "MAX_DECODED_BYTES",
    "SMALL_BYTES",
    "GrowingInput",
    "count_parts",
    "decoded_size",
    "held_size",
    "most_held",
    "text_size",
    "utf8_size",
]

SMALL_BYTES: Final = 1024 * 1024
"""Payloads up to this size are not estimated: whatever they hold is within the cap, or nearly."""

MAX_DECODED_BYTES: Final = 64 * 1024 * 1024
"""Enough for an image of 16 MB, and for all log probabilities that a decoder may hold of one block."""

# Sizes of CPython 3.11 and newer, measured with tracemalloc.
_DICT: Final = 184
_LIST: Final = 88
_VALUE: Final = 32
_STRING: Final = 50
_KEY: Final = 110
# Keys of an object that others share: the decoder creates a repeated short key once.
_SHARED_KEYS: Final = 4

_MAX_COST: Final = {b"{": _DICT, b"[": _LIST, b",": _VALUE, b":": _KEY, b'"': _STRING}

# Bounds the memory of the marks that one pass of the pattern finds.
_WINDOW: Final = 64 * 1024

# A character outside the Basic Multilingual Plane.
_WIDE: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD]")
# Memory of a string with such a character while it is decoded, beyond the 2 bytes of any other.
_WIDE_FACTOR: Final = 4


def decoded_size(payload: bytes) -> int:
    """Estimates the memory in bytes, with the payload itself, if all of it became Python objects."""
    size = 2 * len(payload)
    # The usual case: little, even if none of the marks were in a string.
    most = size + sum(payload.count(mark) * cost for mark, cost in _MAX_COST.items())
    if most <= MAX_DECODED_BYTES and payload.isascii() and b"\\u" not in payload:
        return most
    marks = _Marks()
    marks.feed(payload)
    return size + marks.structure() + _WIDE_FACTOR * marks.wide_bytes


class _Marks:
    """Counts the marks of JSON outside strings, and the bytes of the longest wide string."""

    def __init__(self) -> None:
        self.wide_bytes = 0
        self._counts = dict.fromkeys((b"{", b"[", b",", b":"), 0)
        self._quotes = 0
        self._string_bytes = 0
        self._is_wide = False

    def structure(self) -> int:
        """Estimates the objects, the lists and their values."""
        objects, lists, commas, keys = self._counts.values()
        return (
            _DICT * objects
            + _LIST * lists
            + _VALUE * commas
            + _STRING * max(0, self._quotes // 2 - keys)
            + _KEY * max(0, keys - _SHARED_KEYS * objects)
        )

    def feed(self, payload: bytes) -> None:
        start = 0
        while start < len(payload):
            end = start + _WINDOW
            # An escape is not cut.
            while payload[end - 1 : end] == b"\\":
                end += 1
            self._window(payload[start:end])
            start = end
        self._end_string()

    def _window(self, window: bytes) -> None:
        # Afterwards each quote begins or ends a string.
        parts = window.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        inside = self._quotes % 2
        self._quotes += len(parts) - 1
        outside = b"".join(parts[inside::2])
        for mark in self._counts:
            self._counts[mark] += outside.count(mark)
        # Strings within a window are short.
        if len(parts) > 1:
            self._extend(parts[0])
            self._end_string()
        self._extend(parts[-1])

    def _extend(self, piece: bytes) -> None:
        self._string_bytes += len(piece)
        self._is_wide = self._is_wide or _WIDE.search(piece) is not None

    def _end_string(self) -> None:
        if self._is_wide:
            self.wide_bytes = max(self.wide_bytes, self._string_bytes)
        self._string_bytes = 0
        self._is_wide = False


def held_size(value: object) -> int:
    """Estimates the memory of a JSON value and its contents, in bytes; linear in its size."""
    size = 0
    found: list[Any] = [value]
    for one in found:  # what it holds is added behind it
        kind = type(one)
        if kind is str:
            # As `text_size`, without a call.
            size += _EMPTY_TEXT_BYTES + len(one) if one.isascii() else sys.getsizeof(one)
            continue
        size += sys.getsizeof(one)
        if kind is dict:
            found += one
            found += one.values()
        elif kind is list or kind is tuple:
            found += one
    return size


_EMPTY_TEXT_BYTES = sys.getsizeof("")


def text_size(text: str) -> int:
    """Returns the memory of a text, in bytes."""
    # A call of `getsizeof` takes 1,300 instructions; most texts are names and fragments of JSON.
    return _EMPTY_TEXT_BYTES + len(text) if text.isascii() else sys.getsizeof(text)


def utf8_size(text: str) -> int:
    """Returns the length of a text in bytes of UTF-8; half a character counts too."""
    # Nearly all are ASCII, for which no copy is made.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


# Inputs of calls come in fragments as short as words, which are counted many at a time.

# Memory of a place in a list of CPython.
_SLOT_BYTES: Final = 8
# Memory of an ASCII text besides its characters, and of its place in a list; the same of any other text, of
# which a character takes at most 4 bytes.
_PART_BYTES: Final = _EMPTY_TEXT_BYTES + _SLOT_BYTES
_MAX_PART_BYTES: Final = _PART_BYTES + 28
_MAX_CHARACTER_BYTES: Final = 4


class GrowingInput(Protocol):
    """The input of an open call.

    parts:   its fragments
    counted: how many of them are in `size` and `held`
    size:    their length, in bytes of UTF-8
    held:    their memory, in bytes; what else the call holds is added by its owner
    """

    parts: list[str]
    counted: int
    size: int
    held: int


def count_parts(given: GrowingInput) -> int:
    """Counts the fragments added since the last time; returns the memory by which the input has grown."""
    parts = given.parts[given.counted :]
    text = "".join(parts)
    if text.isascii():
        size = len(text)
        held = len(parts) * _PART_BYTES + size
    else:
        size = utf8_size(text)
        held = len(parts) * _SLOT_BYTES + sum(map(text_size, parts))
    given.counted += len(parts)
    given.size += size
    given.held += held
    return held


def most_held(payloads: list[bytes]) -> int:
    """Returns how much memory the texts in JSON may take at most, in bytes. Nor is their UTF-8 longer."""
    # Each character takes at least a byte of JSON.
    return _MAX_CHARACTER_BYTES * sum(map(len, payloads)) + _MAX_PART_BYTES * len(payloads)
