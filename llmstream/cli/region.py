"""The lower end of a terminal: rows that are done scroll away, rows that still grow are drawn again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.segment import ControlType, Segment

from llmstream.cli.terminal import printable

__all__ = ["Region", "Row", "rows_of"]

Row: TypeAlias = list[Segment]

_ERASE_ROW: Final = (ControlType.ERASE_IN_LINE, 2)
_ROWS_KEPT_FREE: Final = 1


class Region:
    """Draws in one write. The cursor rests behind the last row."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn = 0

    @property
    def room(self) -> int:
        """How many growing rows fit, whatever else there is."""
        return max(1, self._console.height - _ROWS_KEPT_FREE)

    def draw(self, finished: Sequence[Row], growing: Sequence[Row]) -> None:
        """Replaces the growing rows of before by finished ones, for good, and new growing ones."""
        with self._console as console:  # everything within is written at once
            if self._drawn:
                up = ((ControlType.CURSOR_UP, 1), _ERASE_ROW) * (self._drawn - 1)
                console.control(Control(ControlType.CARRIAGE_RETURN, _ERASE_ROW, *up))
            console.print(_Rows(finished, last_open=False), end="")
            console.print(_Rows(growing, last_open=True), end="")
        self._drawn = len(growing)
        self._console.file.flush()


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


class _Rows:
    """Rows that are rendered already. last_open: no line feed after the last one."""

    def __init__(self, rows: Sequence[Row], *, last_open: bool) -> None:
        self._rows = rows
        self._last_open = last_open

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._segments()

    def _segments(self) -> Iterator[Segment]:
        last = len(self._rows) - 1 if self._last_open else -1
        for index, row in enumerate(self._rows):
            yield from row
            if index != last:
                yield Segment.line()
