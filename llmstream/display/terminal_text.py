"""Cleans text for a terminal: no control sequence of a model reaches it.

Escape sequences move the cursor over existing text, set the title, write the clipboard (OSC 52),
disguise links (OSC 8), and make the terminal reply on standard input. Controls for right-to-left
text reorder a line. None of them passes. Safety does not depend on parsing sequences correctly:
the only controls in the output are line feed and tab, and where a sequence ends only decides how
much of its harmless rest is shown.

Output to a pipe or a file is data and remains unchanged.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["TerminalFilter", "one_line", "printable", "safe"]

_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HAZARD: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\ud800-\udfff]")
# A rendered row has no line feed or tab either.
_CONTROL: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_BIDI}\ud800-\udfff]")
# Parameters and intermediates (ECMA-48, 5.4).
_CSI_REST: Final = re.compile(r"[\x20-\x3f]*")
# BEL ends an OSC of xterm; CAN and SUB abort any sequence; ESC begins ST, which is also one character.
_STRING_END: Final = re.compile("[\n\x07\x18\x1a\x1b\x9c]")
# Not to be encoded as UTF-8: writing one raises.
_LONE_SURROGATE: Final = range(0xD800, 0xE000)

# After ESC: OSC, DCS, SOS, PM, APC (ECMA-48, 8.3).
_STRING_OPENERS: Final = frozenset("]PX^_")
# The same openers as single characters.
_C1_STRING_OPENERS: Final = frozenset("\x90\x98\x9d\x9e\x9f")


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
        """Ends the text and returns the buffered rest."""
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
        # NEL is a line end of terminals.
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
        # Cut first: a model's text may have megabytes.
        text = text[: limit + 1]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown[: limit - 1] + "…" if 0 < limit < len(shown) else shown
