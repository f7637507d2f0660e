"""Prints on a terminal, in rows of its width, and handles the signals that it sends.

Model output is cleaned by `display/terminal_text.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from llmstream.display.terminal_text import one_line

__all__ = [
    "columns",
    "echo",
    "listed",
    "on_signals",
    "print_message",
    "typed",
    "uncancel",
    "wrapped",
    "write_bytes",
]

# An error may quote a response.
_MAX_MESSAGE_CHARS: Final = 4000


def typed(text: str) -> str:
    """Cleans user input: bytes that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def print_message(message: str, file: TextIO | None = None) -> None:
    """Prints a message to standard error after the program's name; wraps it on a terminal."""
    out = file or sys.stderr
    line = f"llmstream: {one_line(message.strip(), _MAX_MESSAGE_CHARS)}"
    if out is not None and out.isatty():
        line = wrapped(line, width=_columns_of(out))
    print(line, file=out, flush=True)


def _columns_of(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return 0


def write_bytes(data: bytes) -> None:
    """Writes UTF-8 unchanged to standard output, whatever the terminal's encoding, and flushes."""
    buffer = getattr(sys.stdout, "buffer", None)
    # Standard output may have been replaced by an object that accepts only text.
    if buffer is None:
        sys.stdout.write(data.decode())
        return
    # Flushes earlier text first.
    sys.stdout.flush()
    buffer.write(data)
    buffer.flush()


@contextmanager
def echo(on: bool) -> Iterator[None]:
    """Switches the echo of typed characters on the terminal; restores it afterwards.

    While an answer is drawn, an echo would appear in it. The typed input goes to the next prompt.
    """
    if sys.platform == "win32" or sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] = mode[3] | termios.ECHO if on else mode[3] & ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    try:
        yield
    finally:
        # The terminal may be closed.
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)


_PIPE_COLUMNS: Final = 100
_NARROWEST: Final = 20


def columns(pipe: int = _PIPE_COLUMNS) -> int:
    """Returns the width of the terminal; `pipe` if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else pipe


def wrapped(text: str, indent: str = "", *, width: int = 0) -> str:
    """Wraps text into rows; a word longer than a row, such as a URL, is not broken.

    width: width of a row in characters; 0 for the terminal's
    """
    return textwrap.fill(
        text,
        # One less: after a full row, some terminals leave an empty one.
        max(_NARROWEST, (width or columns()) - 1),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Formats names and descriptions side by side, or below each other if the terminal is narrow."""
    names = max(len(name) for name, _ in rows) + 2
    side_by_side = names + max(len(description) for _, description in rows) < columns()
    for name, description in rows:
        if side_by_side:
            yield f"{name:<{names}}{description}"
        else:
            yield name
            yield wrapped(description, "    ")


@contextmanager
def on_signals(names: Sequence[str], handler: Callable[[], object]) -> Iterator[None]:
    """Calls a function of the running loop at each of these signals, in place of ending the process.

    names: such as "SIGTERM"; those that the system lacks, or that the process ignores, are left out
    """
    # Not loaded by commands that only print.
    import asyncio
    import signal

    loop, handled = asyncio.get_running_loop(), []
    for name in names:
        # Windows has no SIGHUP, and its loops have no signal handlers. nohup ignores SIGHUP.
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:
            continue
        # ValueError: not the main thread.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, handler)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def uncancel() -> None:
    """Withdraws a cancellation of the current task, so that it can report what was done."""
    import asyncio

    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
