"""Renders growing text as rows: finished rows once, unfinished rows again and again.

Markdown is cut where a block is complete, so that only its last block is rendered repeatedly.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

from llmstream.display.terminal_text import printable

__all__ = ["GrowingText", "GrowingThought", "MarkdownBlocks", "Row", "first_part", "rows_of"]

Row: TypeAlias = list[Segment]

# A fence may stand in a quote or in a list.
_FENCE: Final = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(.*)")
_ITEM: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_MAYBE_ITEM: Final = re.compile(r"[-*+]$|\d{1,9}[.)]?$")

# Longest text that is redrawn, some 50 rows; for short lines of code a drawing takes 0.1 s.
# The beginning of a longer block is finished early; its rest becomes plain text, or remains code.
_MAX_CHARS: Final = 4000

_FENCE_OPENER: Final = re.compile(r" {0,3}(?:```|~~~)")


class MarkdownBlocks:
    """Splits Markdown into complete blocks; `tail` is the incomplete one.

    A block ends at an empty line outside of code fences. A list, whose items may contain empty
    lines, ends only before a line that cannot belong to it.
    source: CommonMark 0.31, 4.5 (fences) and 5.3 (lists)
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._fence = ""
        self._empty_before = False

    @property
    def tail(self) -> str:
        """The incomplete block, "" between two blocks."""
        return "".join([*self._lines, self._line])

    def feed(self, text: str) -> list[str]:
        """Returns the blocks that the next piece completes, in order."""
        done: list[str] = []
        *complete, rest = text.split("\n")
        for piece in complete:
            self._line += piece
            self._end_line(done)
        self._line += rest
        # As soon as the next line has begun: its first character shows whether the block continues.
        if self._empty_before and self._line.strip() and not _MAYBE_ITEM.match(self._line):
            self._cut_before(self._line, done)
        return done

    def take(self, limit: int) -> str:
        """Removes and returns the beginning of a tail longer than `limit` characters, else "".

        Cuts between lines if they are short enough. The rest continues as a separate block.
        """
        if sum(map(len, self._lines)) + len(self._line) <= limit:
            return ""
        tail = self.tail
        at = first_part(tail, limit)
        *complete, self._line = tail[at:].split("\n")
        self._lines = [f"{line}\n" for line in complete]
        if not self._lines:
            self._empty_before = False
        return tail[:at]

    def close(self) -> list[str]:
        """Ends the text and returns its last block."""
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
            # A closing fence is as long as the opening one, or longer, and has no text after it.
            if fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
                self._fence = ""
        # Backticks after backticks are inline code, not a fence.
        elif fence is not None and not (fence[1][0] == "`" and "`" in fence[2]):
            self._fence = fence[1]
        elif blank:
            if not self._lines:
                return
            self._empty_before = True
        self._lines.append(line)

    def _cut_before(self, line: str, done: list[str]) -> None:
        """Ends the block if the line after an empty one does not continue it."""
        self._empty_before = False
        in_list = _ITEM.match(self._lines[0].lstrip(" ")) is not None
        if in_list and (line[0] in " \t" or _ITEM.match(line)):
            return
        done.append("".join(self._lines))
        self._lines = []


def first_part(text: str, limit: int) -> int:
    """Returns where to cut a text longer than `limit` characters: after a line if possible."""
    return (text.rfind("\n", 0, limit) + 1) or limit


class _Growing:
    """Counts the rows of the unfinished part that have scrolled away."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._gone = 0

    def render(self, text: str) -> list[Row]:
        """Renders a part of the block."""
        raise NotImplementedError

    @property
    def tail(self) -> str:
        """The unfinished part."""
        raise NotImplementedError

    def finish(self, text: str) -> list[Row]:
        """Returns the rows of a finished part that have not scrolled away."""
        rows = self.render(text)[self._gone :]
        self._gone = 0
        return rows

    def rows(self, room: int) -> tuple[list[Row], list[Row]]:
        """Returns the rows of the unfinished part: those that now scroll away, and those that fit."""
        rows = self.render(self.tail)[self._gone :] if self.tail.strip() else []
        over = max(0, len(rows) - room)
        self._gone += over
        return rows[:over], rows[over:]


class GrowingText(_Growing):
    """Markdown text, finished block by block."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._blocks = MarkdownBlocks()
        self._first = True
        # Whether the beginning of the growing block is finished.
        self._begun = False
        # The first line of the growing block if it is a code fence.
        self._opener = ""

    @property
    def tail(self) -> str:
        """The unfinished block."""
        return self._blocks.tail

    def feed(self, text: str) -> list[Row]:
        """The rows that the next piece finishes."""
        rows = [row for block in self._blocks.feed(text) for row in self._finish_block(block)]
        while part := self._blocks.take(_MAX_CHARS):
            rows += self._finish_part(part, last=False)
        return rows

    def close(self) -> list[Row]:
        """Ends the text and returns the remaining rows."""
        return [row for block in self._blocks.close() for row in self._finish_block(block)]

    def render(self, text: str) -> list[Row]:
        """Renders a block or the rest of one, after an empty row if it is not the first block."""
        return self._part(text, last=True)

    def _finish_block(self, block: str) -> list[Row]:
        rows: list[Row] = []
        while len(block) > _MAX_CHARS:
            at = first_part(block, _MAX_CHARS)
            rows += self._finish_part(block[:at], last=False)
            block = block[at:]
        rows += self._finish_part(block, last=True)
        self._first = self._begun = False
        self._opener = ""
        return rows

    def _finish_part(self, part: str, *, last: bool) -> list[Row]:
        """Returns the rows of a part that have not scrolled away."""
        if not self._begun and _FENCE_OPENER.match(part):
            self._opener = part.partition("\n")[0]
        rows = self._part(part, last=last)[self._gone :]
        self._gone, self._begun = 0, True
        return rows

    def _part(self, part: str, *, last: bool) -> list[Row]:
        """Renders a part: the first as Markdown, the others as plain text, or as code in a code block."""
        if self._begun and not self._opener:
            return rows_of(self._console, Text(part.removesuffix("\n")))
        text = f"{self._opener}\n{part}" if self._begun else part
        # Without terminal hyperlinks, so that a link shows its address.
        content: RenderableType = Markdown(text, hyperlinks=False)
        rows = rows_of(self._console, content)
        # rich begins some blocks with an empty row; the distance to the block before is ours to set.
        while rows and not rows[0]:
            rows.pop(0)
        # The margins of a code block belong only to its first and last part.
        if self._begun and rows and _is_blank(rows[0]):
            rows.pop(0)
        if not last and self._opener and rows and _is_blank(rows[-1]):
            rows.pop()
        return rows if self._first or self._begun else [[], *rows]


class GrowingThought(_Growing):
    """Reasoning: dim, wrapped, and finished line by line."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._line = ""

    @property
    def tail(self) -> str:
        """The unfinished line."""
        return self._line

    def feed(self, text: str) -> list[Row]:
        """The rows that the next piece finishes."""
        *complete, self._line = (self._line + text).split("\n")
        rows = [row for line in complete for row in self.finish(line)]
        # Without line feeds, all of the reasoning would be drawn again each time.
        if len(self._line) > _MAX_CHARS:
            line, self._line = self._line, ""
            rows += self.finish(line)
        return rows

    def close(self) -> list[Row]:
        """Ends the text and returns the remaining rows."""
        line, self._line = self._line, ""
        return self.finish(line) if line else []

    def render(self, text: str) -> list[Row]:
        """Renders a line."""
        return rows_of(self._console, Text(text, style="dim italic"))


def _is_blank(row: Row) -> bool:
    return not any(segment.text.strip() for segment in row)


def rows_of(console: Console, content: RenderableType) -> list[Row]:
    """Renders content as rows of the terminal's width, without controls and trailing blanks."""
    return [
        _trimmed([Segment(printable(s.text), s.style) for s in row if s.control is None])
        for row in console.render_lines(content, pad=False)
    ]


def _trimmed(row: Row) -> Row:
    while row:
        text, style, _ = row[-1]
        # Blanks of this style are visible.
        if style is not None and (style.bgcolor is not None or style.underline):
            break
        text = text.rstrip(" ")
        if text:
            row[-1] = Segment(text, style)
            break
        row.pop()
    return row
