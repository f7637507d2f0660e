"""Text in rows of the terminal's width, broken between words: a terminal breaks anywhere."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["columns", "listed", "wrapped"]

_PIPE_COLUMNS: Final = 100
_NARROWEST: Final = 20


def columns(pipe: int = _PIPE_COLUMNS) -> int:
    """The width of the terminal; `pipe` where standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else pipe


def wrapped(text: str, indent: str = "", *, width: int = 0) -> str:
    """The text in rows; a word longer than a row, such as an address, stays whole.

    width: of a row, in characters; 0 for the terminal's
    """
    return textwrap.fill(
        text,
        max(_NARROWEST, (width or columns()) - 1),  # a full row has some terminals leave an empty one
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names and what they are: side by side, or where there is no room for that, below each other."""
    names = max(len(name) for name, _ in rows) + 2
    side_by_side = names + max(len(what) for _, what in rows) < columns()
    for name, what in rows:
        if side_by_side:
            yield f"{name:<{names}}{what}"
        else:
            yield name
            yield wrapped(what, "    ")
