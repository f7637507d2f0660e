"""Runs of server-sent blocks of one shape, taken apart as a whole instead of line by line.

Providers send long runs of `data: ...` blocks, or of `event: ...` above `data: ...`. One split on "blank line
plus the fixed start of the next block" yields all payloads of such a run; counting the line ends then proves
that the run had no other line in it. Anything else is left to the line reader.
"""

from __future__ import annotations

__all__ = ["payloads_of_run"]


def payloads_of_run(text: bytes, eol: bytes) -> list[bytes] | None:
    """The payloads of a run of blocks of one shape, or None where the run is of any other kind.

    text: starts a block, ends with a blank line; without CR where eol is LF
    eol:  LF or CRLF
    """
    if text.startswith(b"data:"):
        lines_a_block, start = 2, 5
    elif text.startswith(b"event:"):
        lines_a_block, start = 3, text.find(eol) + len(eol) + 5
        if not text.startswith(b"data:", start - 5):
            return None
    else:
        return None
    line_ends = text.count(b"\n")
    if eol == b"\r\n" and text.count(b"\r") != line_ends:
        return None
    blank = eol + eol
    spaced = text.startswith(b" ", start)
    start += spaced
    if line_ends == lines_a_block:
        return [text[start : -len(blank)]]
    separator = blank + text[:start]
    if not spaced and separator + b" " in text:
        return None
    payloads = text[start : -len(blank)].split(separator)
    # With these the line ends are used up, so none is inside a payload.
    if line_ends == lines_a_block * len(payloads):
        return payloads
    return _named_payloads(text, eol, line_ends) if lines_a_block == 3 else None


def _named_payloads(text: bytes, eol: bytes, line_ends: int) -> list[bytes] | None:
    """The payloads of a run of two-line blocks whose event names differ, or None."""
    lines = text.splitlines()
    count, rest = divmod(line_ends, 3)
    if rest or len(lines) != line_ends or any(lines[2::3]):
        return None
    for name in set(lines[::3]):
        if not name.startswith(b"event:"):
            return None
    # Names and blank lines account for the rest, so `data: ` can begin the middle lines only.
    if text.count(eol + b"data: ") != count:
        return None
    return [line[6:] for line in lines[1::3]]
