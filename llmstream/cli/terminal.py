"""Prints text on a terminal: safe from control sequences, in rows of the terminal's width.

Escape sequences move the cursor over existing text, set the title, write the clipboard (OSC 52),
disguise links (OSC 8), and make the terminal reply on standard input. Controls for right-to-left
text reorder a line. None of them passes. Safety does not depend on parsing sequences correctly:
the only controls in the output are line feed and tab, and where a sequence ends only decides how
much of its harmless rest is shown.

Output to a pipe or a file is data and remains unchanged.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TextIO

__all__ = [
    "TerminalFilter",
    "columns",
    "echo",
    "listed",
    "one_line",
    "print_message",
    "printable",
    "safe",
    "typed",
    "wrapped",
    "write_bytes",
]

_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HAZARD: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\ud800-\udfff]")
_CONTROL: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_BIDI}\ud800-\udfff]")
_CSI_REST: Final = re.compile(r"[\x20-\x3f]*")
_STRING_END: Final = re.compile("[\n\x07\x18\x1a\x1b\x9c]")
_MAX_MESSAGE_CHARS: Final = 4000
_LONE_SURROGATE: Final = range(0xD800, 0xE000)

_STRING_OPENERS: Final = frozenset("]PX^_")
"""After ESC: OSC, DCS, SOS, PM, APC (ECMA-48, 8.3)."""
_C1_STRING_OPENERS: Final = frozenset("\x90\x98\x9d\x9e\x9f")
"""The same as single characters."""


class TerminalFilter:
    """Cleans text that arrives in pieces; recognizes sequences cut between two pieces.

    Removes escape sequences and bidi controls, turns CRLF and CR into line feeds, and shows other
    controls as pictures (U+2400 to U+2421). An unterminated string sequence ends at the end of its
    line, so it cannot hide an answer.
    source: ECMA-48, 5.4 (CSI) and 8.3 (strings); Unicode 9.0, 23.2 (bidi controls)
    """

    def __init__(self) -> None:
        self._state = "ground"

    def feed(self, text: str) -> str:
        """Returns the safe part of the next piece; holds back unfinished sequences."""
        if self._state == "ground" and _HAZARD.search(text) is None:
            return text
        out: list[str] = []
        at = 0
        while at < len(text):
            match self._state:
                case "ground":
                    at = self._ground(text, at, out)
                case "cr":
                    self._state = "ground"
                    out.append("\n")
                    at += text[at] == "\n"
                case "escape":
                    at = self._escape(text, at)
                case "csi":
                    at = self._csi(text, at)
                case _:
                    at = self._string(text, at)
        return "".join(out)

    def close(self) -> str:
        """Ends the text and returns what was held back."""
        rest = "\n" if self._state == "cr" else ""
        self._state = "ground"
        return rest

    def _ground(self, text: str, at: int, out: list[str]) -> int:
        hazard = _HAZARD.search(text, at)
        if hazard is None:
            out.append(text[at:])
            return len(text)
        out.append(text[at : hazard.start()])
        found = hazard.group()
        code = ord(found)
        if found == "\x1b":
            self._state = "escape"
        elif found == "\x9b":
            self._state = "csi"
        elif found in _C1_STRING_OPENERS:
            self._state = "string"
        elif found == "\r":
            self._state = "cr"
        elif found == "\x85":
            out.append("\n")
        elif code < 0x20:
            out.append(chr(0x2400 + code))
        elif code == 0x7F:
            out.append("\u2421")
        elif code in _LONE_SURROGATE:
            out.append("\ufffd")
        return hazard.end()

    def _escape(self, text: str, at: int) -> int:
        """Reads the character after ESC, or after ESC and intermediates."""
        found = text[at]
        if found == "[":
            self._state = "csi"
        elif found in _STRING_OPENERS:
            self._state = "string"
        elif "\x20" <= found <= "\x2f":
            # An intermediate; the final character follows.
            pass
        elif "\x30" <= found <= "\x7e":
            self._state = "ground"
        else:
            # Not a sequence: the character is text.
            self._state = "ground"
            return at
        return at + 1

    def _csi(self, text: str, at: int) -> int:
        """Skips parameters and intermediates after CSI, and one final character."""
        rest = _CSI_REST.match(text, at)
        at = rest.end() if rest is not None else at
        if at < len(text):
            self._state = "ground"
            at += "\x40" <= text[at] <= "\x7e"
        return at

    def _string(self, text: str, at: int) -> int:
        """Skips the content of OSC, DCS, SOS, PM or APC."""
        end = _STRING_END.search(text, at)
        if end is None:
            return len(text)
        self._state = "escape" if end.group() == "\x1b" else "ground"
        return end.start() if end.group() == "\n" else end.end()


def safe(text: str) -> str:
    """Cleans a complete text."""
    cleaner = TerminalFilter()
    return cleaner.feed(text) + cleaner.close()


def printable(text: str) -> str:
    """Replaces all controls in a piece of a rendered line."""
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str, limit: int = 0) -> str:
    """Formats text as one line, with unprintable characters escaped as in Python source.

    limit: maximum length of the result in characters, an ellipsis included; 0 for no limit
    """
    if 0 < limit < len(text):
        text = text[: limit + 1]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown[: limit - 1] + "…" if 0 < limit < len(shown) else shown


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
    sys.stdout.flush()
    buffer.write(data)
    buffer.flush()


@contextmanager
def echo(on: bool) -> Iterator[None]:
    """Switches the echo of typed characters on the terminal; restores it afterwards.

    While an answer is drawn, an echo would land in it. What was typed is in the next prompt.
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
        # The terminal may be gone.
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
