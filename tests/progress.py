"""Says how far a drill is, while it runs; the quick forms, which are tests, say nothing."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

__all__ = ["PROGRESS", "Progress"]

PROGRESS: Final = "LLMSTREAM_PROGRESS"
"""A variable of the environment: seconds between two lines. `scripts/drills` sets it."""


class Progress:
    """Prints a line of progress every so often.

    what:  is done, such as "kills of plain on sqlite"
    total: of the steps; 0 if nobody knows
    """

    def __init__(self, what: str, total: int = 0) -> None:
        every = os.environ.get(PROGRESS, "")
        self._every_s = float(every) if every else float("inf")
        self._what, self._total = what, total
        self._began = self._shown = time.monotonic()
        self.done = 0

    def step(self, note: str = "", *, count: int = 1) -> None:
        """Another step is done, or none with a count of 0."""
        self.done += count
        now = time.monotonic()
        if now >= self._shown + self._every_s or (count and self.done == self._total):
            self._shown = now
            of = f" of {self._total:,}" if self._total else ""
            self.say(f"{self.done:,}{of}{', ' if note else ''}{note}")

    def say(self, text: str) -> None:
        """Prints a line at once, such as about a failure that would else be seen at the end."""
        if self._every_s < float("inf"):
            at = f"{time.monotonic() - self._began:6.0f} s"
            print(f"  {at}  {self._what}: {text}", file=sys.stderr, flush=True)
