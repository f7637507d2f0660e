"""Newline-delimited JSON: bytes in, complete non-blank lines out."""

from __future__ import annotations

from io import BytesIO
from itertools import repeat

from llmstream.errors import LimitExceeded, LLMStreamError

__all__ = ["NDJSONDecoder"]

_BOM = b"\xef\xbb\xbf"
# JSON's white space without LF. `strip()` without arguments would take form feeds too, which are no JSON.
_BLANKS = b" \t\r"
_ALL_BLANKS = repeat(_BLANKS + b"\n")  # for each line


class NDJSONDecoder:
    """Splits a body into JSON texts, one a line, however its chunks are cut.

    Only LF ends a line; the CR of a CRLF and other white space around the text fall away, blank lines are
    skipped, and a byte order mark at the body's start is dropped.

    max_bytes: cap on one line, in bytes
    error:     set when the cap is passed. What was complete before it in the same chunk is returned first;
               then every further call raises it. With nothing before it, it is raised at once.
    """

    __slots__ = ("_at_start", "_line", "error", "max_bytes")

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        self.max_bytes = max_bytes
        self.error: LLMStreamError | None = None
        self._line = bytearray()  # the unfinished line
        self._at_start = True  # a byte order mark may still come

    @property
    def pending(self) -> bool:
        """Whether an unfinished, non-blank line is held."""
        return bool(self._line.strip(_BLANKS))

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """Splits a chunk; returns the texts of the lines that it completes, in wire order.

        chunk:  any slice of the body
        raises: LimitExceeded past max_bytes
        """
        if self.error is not None:
            raise self.error
        if self._at_start:
            chunk = self._without_bom(chunk)
        held = self._line
        end = chunk.find(b"\n")
        if len(held) + (len(chunk) if end < 0 else end) > self.max_bytes:
            raise self._fail()
        if end < 0:
            held += chunk
            return []
        # A third of the time of `split`.
        lines = BytesIO(b"".join((held, chunk)) if held else chunk).readlines()
        self._line = bytearray() if chunk.endswith(b"\n") else bytearray(lines.pop())
        # A shorter chunk holds no line that is too long; its first, including the buffer, is measured above.
        if len(chunk) > self.max_bytes:
            lines = self._within_cap(lines)
        texts = list(filter(None, map(bytes.strip, lines, _ALL_BLANKS)))
        if self.error is not None and not texts:
            raise self.error
        return texts

    def close(self) -> list[bytes]:
        """Ends the body; returns the last line, if it is not blank and had no line end.

        raises: the deferred `error`, if there is one
        """
        if self.error is not None:
            raise self.error
        text = bytes(self._line.strip(_BLANKS))
        self._line = bytearray()
        return [text] if text else []

    def _within_cap(self, lines: list[bytes]) -> list[bytes]:
        """Returns the lines before the first that is too long, and stores its error."""
        for count, line in enumerate(lines):
            if len(line) - 1 > self.max_bytes:  # without its LF
                self._fail()
                return lines[:count]
        if len(self._line) > self.max_bytes:
            self._fail()
        return lines

    def _without_bom(self, chunk: bytes) -> bytes:
        """Removes a byte order mark at the body's start; a cut mark is held as the first line."""
        chunk = bytes(self._line) + chunk
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._line = bytearray(chunk)
            return b""
        self._line = bytearray()
        self._at_start = False
        return chunk.removeprefix(_BOM)

    def _fail(self) -> LLMStreamError:
        """Stores the error of an exceeded limit, and drops the data."""
        self._line = bytearray()
        self.error = LimitExceeded(
            f"The NDJSON stream holds a line of more than {self.max_bytes} bytes. "
            "Pass a larger max_bytes if lines of this size are expected.",
            reason="limit",
        )
        return self.error
