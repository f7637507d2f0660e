"""Rebuilds the JSON text of a call's arguments from values that stream with JSON paths."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.errors import DecodeError

__all__ = ["ArgumentsText", "PartialArg", "parse_path"]

# wire    {"jsonPath": "$.stops[0].name", "stringValue": "Os", "willContinue": true}
#         {"jsonPath": "$.stops[0].name", "stringValue": "lo"}
# text    {"stops":[{"name":"Os
#         lo"
#
# The text only grows, so a path cannot return to a container that was closed. Vertex AI sends paths in
# document order; any other order is an error.
# source: "Streaming function call arguments" in the reference of Vertex AI

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,9})\]|\[(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]"""
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
# Elements of a list that are omitted become null. The cap bounds the memory that one index can take.
_MAX_GAP: Final = 1000
# Far above real arguments, and below the recursion limit of those who encode the value.
_MAX_DEPTH: Final = 500


class PartialArg(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A value, or a piece of a string, at a JSON path inside the arguments of a call."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: int | float | str | None = None
    bool_value: bool | None = None
    null_value: Any | UnsetType = UNSET
    will_continue: bool | None = None


def parse_path(path: str) -> list[str | int]:
    """Splits a path such as `$.a[0]['b c']` into names and indexes.

    raises: DecodeError for anything else
    """
    at = 1 if path.startswith("$") else 0
    text = path if at else f".{path}"
    steps: list[str | int] = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise DecodeError(f"{path!r} is not a JSON path")
        index = found["index"]
        if index is not None:
            steps.append(int(index))
        else:
            quoted = found["single"] if found["single"] is not None else found["double"]
            steps.append(found["name"] if quoted is None else _ESCAPE.sub(r"\1", quoted))
        at = found.end()
    if len(steps) > _MAX_DEPTH:
        raise DecodeError("the path of an argument is nested too deeply")
    return steps


class _Container:
    """An open object or list: its last step, and all its names."""

    __slots__ = ("is_list", "last", "names")

    def __init__(self, first: str | int) -> None:
        self.is_list = isinstance(first, int)
        self.last: str | int | None = None
        self.names: set[str] = set()

    def enter(self, step: str | int) -> str:
        """Moves to another element; returns the text before its value."""
        comma = "" if self.last is None else ","
        if isinstance(step, int):
            gap = step - (self.last if isinstance(self.last, int) else -1) - 1
            if not self.is_list or gap < 0 or gap > _MAX_GAP:
                raise DecodeError(f"element {step} of a list came out of order")
            self.last = step
            return comma + "null," * gap
        if self.is_list or step in self.names:
            raise DecodeError(f"the value of {step!r} came out of order")
        self.names.add(step)
        self.last = step
        return f"{comma}{_quoted(step)}:"

    @property
    def end(self) -> str:
        """The closing bracket."""
        return "]" if self.is_list else "}"


class ArgumentsText:
    """The text of one call's arguments, piece by piece.

    broken: a fragment arrived out of order; the text ends before it
    """

    def __init__(self) -> None:
        self.broken = False
        self._open: list[_Container] = []
        self._path: list[str | int] | None = None
        self._in_string = False
        self._half = ""  # the first half of a surrogate pair, at the end of a piece

    def add(self, piece: PartialArg) -> str:
        """Returns the text that a piece adds.

        raises: DecodeError if it is out of order; the text does not change
        """
        value = _literal(piece)
        if piece.string_value is None and value is None:
            return ""
        path = parse_path(piece.json_path or "$")
        if piece.string_value is None:
            return self._go_to(path) + (value or "")
        out = ""
        if not (self._in_string and path == self._path):
            out = self._go_to(path) + '"'
            self._in_string = True
        out += self._piece(piece.string_value)
        return out if piece.will_continue else out + self._end_string()

    def close(self) -> str:
        """Returns the text that closes everything; `{}` if there were no values."""
        if self._path is None:
            return "{}"
        out = self._end_string()
        while self._open:
            out += self._open.pop().end
        return out

    def _go_to(self, path: list[str | int]) -> str:
        """Closes containers outside the path, and opens those that lead there."""
        try:
            return self._moved(path)
        except DecodeError:
            self.broken = True
            raise

    def _moved(self, path: list[str | int]) -> str:
        known = self._path
        if known is None:
            _check_gaps(path)
            self._path = path
            return "".join(self._opened(step) for step in path)
        common = 0
        while common < min(len(known), len(path)) and known[common] == path[common]:
            common += 1
        # One path is the beginning of the other, or the same: its place is taken already.
        if common == len(path) or common == len(known):
            raise DecodeError(f"the value at {path} came twice, or inside another")
        _check_gaps(path[common + 1 :])
        # Before anything is closed: an element out of order raises here, and the text must not have changed
        # then.
        entered = self._open[common].enter(path[common])
        out = self._end_string()
        while len(self._open) > common + 1:
            out += self._open.pop().end
        self._path = path
        return out + entered + "".join(self._opened(step) for step in path[common + 1 :])

    def _opened(self, step: str | int) -> str:
        container = _Container(step)
        self._open.append(container)
        return ("[" if container.is_list else "{") + container.enter(step)

    def _piece(self, text: str) -> str:
        text = self._half + text
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return _quoted(text)[1:-1]

    def _end_string(self) -> str:
        if not self._in_string:
            return ""
        self._in_string = False
        half, self._half = self._half, ""
        return '\ufffd"' if half else '"'


def _check_gaps(path: list[str | int]) -> None:
    if any(isinstance(step, int) and step > _MAX_GAP for step in path):
        raise DecodeError(f"a list begins with more than {_MAX_GAP} elements left out")


def _quoted(text: str) -> str:
    return json.dumps(without_lone_surrogates(text), ensure_ascii=False)


def _literal(piece: PartialArg) -> str | None:
    """Returns the JSON text of a value that is not a string; None if there is none."""
    if piece.number_value is not None:
        # NaN and Infinity: JSON has no such numbers.
        if isinstance(piece.number_value, str):
            return _quoted(piece.number_value)
        return msgspec.json.encode(piece.number_value).decode()
    if piece.bool_value is not None:
        return "true" if piece.bool_value else "false"
    return None if piece.null_value is msgspec.UNSET else "null"
