"""Cuts growing Markdown where a block is over, so that what is finished is rendered once."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from llmstream.cli.terminal import printable

__all__ = ["GrowingText", "GrowingThought", "MarkdownBlocks", "Row", "first_part", "rows_of"]

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


Row: TypeAlias = list[Segment]


_MOST_CHARS: Final = 4000
"""The longest text that is drawn again and again. Of a longer block the beginning is finished; what
follows is plain text, or code as before. Some 50 rows; of short lines of code 0.1 s a drawing."""

_FENCE_OPENER: Final = re.compile(r" {0,3}(?:```|~~~)")


class _Growing:
    """Base: counts the rows of the unfinished part that had to scroll away already."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._gone = 0

    def render(self, text: str) -> list[Row]:
        """A part of the block as rows."""
        raise NotImplementedError

    @property
    def tail(self) -> str:
        """The unfinished part."""
        raise NotImplementedError

    def finish(self, text: str) -> list[Row]:
        """The rows of a part that is over, less those that are gone."""
        rows = self.render(text)[self._gone :]
        self._gone = 0
        return rows

    def rows(self, room: int) -> tuple[list[Row], list[Row]]:
        """The unfinished part: rows that do not fit the room and are gone with this, and the rest."""
        rows = self.render(self.tail)[self._gone :] if self.tail.strip() else []
        over = max(0, len(rows) - room)
        self._gone += over
        return rows[:over], rows[over:]


class GrowingText(_Growing):
    """Markdown, finished block by block."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._blocks = MarkdownBlocks()
        self._first = True
        self._begun = False  # whether a part of the block that grows is finished
        self._opener = ""  # the line that opens it, where it is a code fence

    @property
    def tail(self) -> str:
        """The unfinished block."""
        return self._blocks.tail

    def feed(self, text: str) -> list[Row]:
        """The rows that the next piece finishes."""
        rows = [row for block in self._blocks.feed(text) for row in self._finish_block(block)]
        while part := self._blocks.take(_MOST_CHARS):
            rows += self._finish_part(part, last=False)
        return rows

    def close(self) -> list[Row]:
        """The rows that were left."""
        return [row for block in self._blocks.close() for row in self._finish_block(block)]

    def render(self, text: str) -> list[Row]:
        """A block, or what is left of it, as rows, with an empty one between it and the block before."""
        return self._part(text, last=True)

    def _finish_block(self, block: str) -> list[Row]:
        rows: list[Row] = []
        while len(block) > _MOST_CHARS:
            at = first_part(block, _MOST_CHARS)
            rows += self._finish_part(block[:at], last=False)
            block = block[at:]
        rows += self._finish_part(block, last=True)
        self._first = self._begun = False
        self._opener = ""
        return rows

    def _finish_part(self, part: str, *, last: bool) -> list[Row]:
        """The rows of a part, less those that are gone."""
        if not self._begun and _FENCE_OPENER.match(part):
            self._opener = part.partition("\n")[0]
        rows = self._part(part, last=last)[self._gone :]
        self._gone, self._begun = 0, True
        return rows

    def _part(self, part: str, *, last: bool) -> list[Row]:
        """A part as rows. The first is Markdown, the others are plain text, or code if the block is."""
        if self._begun and not self._opener:
            return rows_of(self._console, Text(part.removesuffix("\n")))
        text = f"{self._opener}\n{part}" if self._begun else part
        content: RenderableType = Markdown(text, hyperlinks=False)  # a link shows where it leads
        rows = rows_of(self._console, content)
        while rows and not rows[0]:
            rows.pop(0)
        if self._begun and rows and _is_blank(rows[0]):  # the margin of the code
            rows.pop(0)
        if not last and self._opener and rows and _is_blank(rows[-1]):
            rows.pop()
        return rows if self._first or self._begun else [[], *rows]


class GrowingThought(_Growing):
    """Reasoning: dim, wrapped, finished line by line."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._line = ""

    @property
    def tail(self) -> str:
        """The unfinished line."""
        return self._line

    def feed(self, text: str) -> list[Row]:
        """The rows that the next piece finishes."""
        *whole, self._line = (self._line + text).split("\n")
        rows = [row for line in whole for row in self.finish(line)]
        if len(self._line) > _MOST_CHARS:
            line, self._line = self._line, ""
            rows += self.finish(line)
        return rows

    def close(self) -> list[Row]:
        """The rows that were left."""
        line, self._line = self._line, ""
        return self.finish(line) if line else []

    def render(self, text: str) -> list[Row]:
        """A line as rows."""
        return rows_of(self._console, Text(text, style="dim italic"))


def _is_blank(row: Row) -> bool:
    return not any(segment.text.strip() for segment in row)


def rows_of(console: Console, content: RenderableType) -> list[Row]:
    """Anything as rows of the terminal's width, without controls and without blanks at their ends."""
    return [
        _trimmed([Segment(printable(s.text), s.style) for s in row if s.control is None])
        for row in console.render_lines(content, pad=False)
    ]


def _trimmed(row: Row) -> Row:
    while row:
        text, style, _ = row[-1]
        if style is not None and (style.bgcolor is not None or style.underline):
            break
        text = text.rstrip(" ")
        if text:
            row[-1] = Segment(text, style)
            break
        row.pop()
    return row
