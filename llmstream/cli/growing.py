"""One block of text or reasoning on a terminal: rows that are done, and rows that may still change."""

from __future__ import annotations

import re
from typing import Final

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from llmstream.cli.markdown_blocks import MarkdownBlocks, first_part
from llmstream.cli.region import Row, rows_of

__all__ = ["GrowingText", "GrowingThought"]


_MOST_CHARS: Final = 4000
"""The longest text that is drawn again and again. Of a longer block the beginning is finished; what
follows is plain text, or code as before. Some 50 rows; of short lines of code 0.1 s a drawing."""

_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")


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
        if not self._begun and _FENCE.match(part):
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
