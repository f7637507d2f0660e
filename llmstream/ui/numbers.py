"""Numbers that clients send as text: positions in a run, and parts of ids. Three protocols read them."""

from __future__ import annotations

from typing import Final

__all__ = ["whole_number"]

MOST_DIGITS: Final = 16
"""No run has more events; `int` of a very long text would take long."""


def whole_number(text: str) -> int | None:
    """Parses a number of up to 16 ASCII digits; None for any other text, such as "-1" or "+1"."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        return None
    return int(text)
