"""Lines of a server's log, written beside its event loop."""

from __future__ import annotations

import os
import queue
import threading
from typing import Final, TextIO

__all__ = ["LineWriter"]

_MOST_LINES: Final = 10_000
_CLOSE_S: Final = 2.0


class LineWriter:
    """Writes lines from a thread of its own, in order.

    A server in the foreground is often started with a pipe that nobody reads, or whose reader ends
    first: the one would stop the event loop once the pipe is full, the other end the program. Here
    lines that nobody takes are dropped, at most 10,000 wait.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST_LINES)
        self._thread = threading.Thread(target=self._run, name="llmstream-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Writes a line soon."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            pass

    def close(self) -> None:
        """Waits a moment until all lines are written."""
        try:
            self._lines.put(None, timeout=_CLOSE_S)
        except queue.Full:  # nobody reads
            return
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        self._out.flush()
        write = self._write
        while (line := self._lines.get()) is not None:
            try:
                write(f"{line}\n".encode(self._out.encoding or "utf-8", "backslashreplace"))
            except OSError:  # the reader has gone
                write = _drop

    def _write(self, data: bytes) -> None:
        """Past the buffer of the file: a thread that waits in it could not be left behind."""
        while data:
            data = data[os.write(self._out.fileno(), data) :]


def _drop(data: bytes) -> None:
    pass
