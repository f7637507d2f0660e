"""One block of text or reasoning on a terminal: rows that are done, and rows that may still change."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from llmstream.cli.markdown_blocks import MarkdownBlocks
from llmstream.cli.region import Row, rows_of

__all__ = ["GrowingText", "GrowingThought"]


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

    @property
    def tail(self) -> str:
        """The unfinished block."""
        return self._blocks.tail

    def feed(self, text: str) -> list[Row]:
        """The rows that the next piece finishes."""
        return [row for block in self._blocks.feed(text) for row in self._finish_block(block)]

    def close(self) -> list[Row]:
        """The rows that were left."""
        return [row for block in self._blocks.close() for row in self._finish_block(block)]

    def render(self, text: str) -> list[Row]:
        """A block as rows, with an empty one between it and the block before."""
        content: RenderableType = Markdown(text, hyperlinks=False)  # a link shows where it leads
        rows = rows_of(self._console, content)
        while rows and not rows[0]:
            rows.pop(0)
        return rows if self._first else [[], *rows]

    def _finish_block(self, block: str) -> list[Row]:
        rows = self.finish(block)
        self._first = False
        return rows


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
        return [row for line in whole for row in self.finish(line)]

    def close(self) -> list[Row]:
        """The rows that were left."""
        line, self._line = self._line, ""
        return self.finish(line) if line else []

    def render(self, text: str) -> list[Row]:
        """A line as rows."""
        return rows_of(self._console, Text(text, style="dim italic"))
