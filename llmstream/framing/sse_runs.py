"""Runs of server-sent blocks of one shape, taken apart as a whole instead of line by line.

Providers send long runs of `data: ...` blocks, or of `event: ...` above `data: ...`. One split on "blank line
plus the fixed start of the next block" yields all payloads of such a run; that no line end is left in
them proves that the run had no other line. Anything else is left to the line reader.
"""

from __future__ import annotations

__all__ = ["payloads_of_run"]


def payloads_of_run(text: bytes, eol: bytes) -> list[bytes] | None:
    """The payloads of a run of blocks of one shape, or None where the run is of any other kind.

    text: starts a block, ends with a blank line; without CR where eol is LF
    eol:  LF or CRLF
    """
    if text.startswith(b"data:"):
        start = 5
    elif text.startswith(b"event:"):
        name = text[: text.find(eol)]
        start = len(name) + len(eol) + 5
        if not text.startswith(b"data:", start - 5) or b"\n" in name or b"\r" in name:
            return None
    else:
        return None
    blank = eol + eol
    spaced = text.startswith(b" ", start)
    start += spaced
    separator = blank + text[:start]
    if not spaced and separator + b" " in text:
        return None
    payloads = text[start : -len(blank)].split(separator)
    joined = b"".join(payloads)  # searched in one go, which is cheaper than to count line ends
    if b"\n" not in joined and b"\r" not in joined:
        return payloads
    return _named_payloads(text, eol) if text.startswith(b"event:") else None


def _named_payloads(text: bytes, eol: bytes) -> list[bytes] | None:
    """The payloads of a run of two-line blocks whose event names differ, or None."""
    line_ends = text.count(b"\n")
    if eol == b"\r\n" and text.count(b"\r") != line_ends:
        return None
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
