"""How far a benchmark is, on standard error where that is a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Final, Self, TextIO

__all__ = ["Progress"]

_PAUSE_S: Final = 0.1
"""It is drawn no oftener than that: drawing would be measured along."""


class Progress:
    """`with Progress(50) as progress: progress.advance()`; gone when the block is over.

    A bar with rich (extra `cli`), else one line that is written over; nothing where nobody looks.
    """

    def __init__(self, total: int, out: TextIO | None = None) -> None:
        self._total = total
        self._done = self._failed = 0
        self._drawn = 0.0
        self._out = out if out is not None else sys.stderr
        self._shown = self._out is not None and self._out.isatty()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._shown:
            self._bar = _bar_of(self._total, self._out)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def advance(self, *, failed: bool = False) -> None:
        """One more request is over."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if not self._shown or (now - self._drawn < _PAUSE_S and self._done < self._total):
            return
        self._drawn = now
        told = f"{self._done}/{self._total}" + (f", {self._failed} failed" if self._failed else "")
        if self._bar is None:
            self._out.write(f"\r\x1b[K{told}")
            self._out.flush()
        else:
            self._bar.update(self._bar.task_ids[0], completed=self._done, description=told)
            self._bar.refresh()


def _bar_of(total: int, out: TextIO) -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return None
    bars = Bars(console=Console(file=out), auto_refresh=False, transient=True)
    bars.add_task(f"0/{total}", total=total)
    bars.start()
    return bars
