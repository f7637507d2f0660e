"""Cuts growing Markdown where a block is over, so that what is finished is rendered once."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MarkdownBlocks", "first_part"]

_FENCE: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(.*)")
_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_MAYBE_ITEM: Final = re.compile(r"[-*+]$|\d{1,9}[.)]?$")


class MarkdownBlocks:
    """Text in, finished blocks out; `tail` is the block that still grows.

    A block is over at an empty line that stands in no code fence; a list, whose items may have
    empty lines between and inside them, only where a line follows that cannot belong to it.
    source: CommonMark 0.31, 4.5 (fences) and 5.3 (lists)
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._fence = ""
        self._empty_before = False

    @property
    def tail(self) -> str:
        """The block that still grows, "" between two."""
        return "".join([*self._lines, self._line])

    def feed(self, text: str) -> list[str]:
        """The blocks that the next piece completes, in order."""
        done: list[str] = []
        *whole, rest = text.split("\n")
        for piece in whole:
            self._line += piece
            self._end_line(done)
        self._line += rest
        if self._empty_before and self._line.strip() and not _MAYBE_ITEM.match(self._line):
            self._cut_before(self._line, done)
        return done

    def take(self, most: int) -> str:
        """The beginning of a block that has grown longer than `most` characters, "" of any other.

        Whole lines where they are not too long; the rest of the block follows as if it were another.
        """
        if sum(map(len, self._lines)) + len(self._line) <= most:
            return ""
        tail = self.tail
        at = first_part(tail, most)
        *whole, self._line = tail[at:].split("\n")
        self._lines = [f"{line}\n" for line in whole]
        if not self._lines:
            self._empty_before = False
        return tail[:at]

    def close(self) -> list[str]:
        """The text is over: its last block."""
        tail = self.tail
        self._lines, self._line, self._fence, self._empty_before = [], "", "", False
        return [tail] if tail.strip() else []

    def _end_line(self, done: list[str]) -> None:
        line, self._line = self._line + "\n", ""
        blank = not line.strip()
        if self._empty_before and not blank:
            self._cut_before(line, done)
        fence = _FENCE.match(line)
        if self._fence:
            if fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
        elif fence is not None and not (fence[1][0] == "`" and "`" in fence[2]):
            self._fence = fence[1]
        elif blank:
            if not self._lines:
                return
            self._empty_before = True
        self._lines.append(line)

    def _cut_before(self, line: str, done: list[str]) -> None:
        """Ends the block if the line after an empty one does not go on with it."""
        self._empty_before = False
        in_list = _ITEM.match(self._lines[0].lstrip(" ")) is not None
        if in_list and (line[0] in " \t" or _ITEM.match(line)):
            return
        done.append("".join(self._lines))
        self._lines = []


def first_part(text: str, most: int) -> int:
    """Where the first part of a text ends that is longer than `most` characters: behind a line, if it can."""
    return (text.rfind("\n", 0, most) + 1) or most
