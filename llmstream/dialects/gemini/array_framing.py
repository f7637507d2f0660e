"""The framing of an answer: SSE, or the JSON array that comes where `alt=sse` was left out."""

from __future__ import annotations

import re
from typing import Final

from llmstream.errors import LimitExceeded, LLMStreamError
from llmstream.framing.sse import SSEDecoder

__all__ = ["ArrayElements", "GeminiFraming"]

_MARKS: Final = re.compile(rb'["{}\[\]]')
_STRING_ENDS: Final = re.compile(rb'["\\]')


class ArrayElements:
    """Objects of a JSON array, or one object alone, each as soon as it is whole.

    max_bytes: cap of one object
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.error: LLMStreamError | None = None
        self._max_bytes = max_bytes
        self._tail = bytearray()
        self._at = 0  # how far the tail has been looked at
        self._begin: int | None = None  # where the object begins
        self._depth = 0
        self._in_string = False

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """The objects that a slice completes."""
        if self.error is not None:
            return []
        self._tail += chunk
        out: list[bytes] = []
        while self._step(out):
            pass
        done = self._at if self._begin is None else self._begin
        del self._tail[:done]
        self._at -= done
        if self._begin is not None:
            self._begin = 0
        if len(self._tail) > self._max_bytes:
            self.error = LimitExceeded(f"an element of the answer is longer than {self._max_bytes} bytes")
            self._tail.clear()
        return out

    def _step(self, out: list[bytes]) -> bool:
        """Goes to the next mark; False where there is none yet."""
        found = (_STRING_ENDS if self._in_string else _MARKS).search(self._tail, self._at)
        if found is None:
            self._at = len(self._tail)
            return False
        place, mark = found.start(), found.group()
        if mark == b"\\":
            if place + 1 >= len(self._tail):
                self._at = place
                return False
            self._at = place + 2
            return True
        self._at = place + 1
        if mark == b'"':
            self._in_string = not self._in_string
        elif self._begin is None:
            if mark == b"{":
                self._begin, self._depth = place, 1
        elif mark in b"{[":
            self._depth += 1
        else:
            self._depth -= 1
            if self._depth == 0:
                out.append(bytes(self._tail[self._begin : self._at]))
                self._begin = None
        return True


class GeminiFraming:
    """Either form, told by the first byte that is no white space."""

    def __init__(self, *, max_bytes: int) -> None:
        self.error: LLMStreamError | None = None
        self._max_bytes = max_bytes
        self._form: SSEDecoder | ArrayElements = SSEDecoder(max_bytes=max_bytes)
        self._known = False

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """The payloads that a slice completes."""
        if not self._known:
            begin = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()
            self._known = bool(begin)
            if begin[:1] in (b"[", b"{"):
                self._form = ArrayElements(max_bytes=self._max_bytes)
        payloads = self._form.feed_data(chunk)
        self.error = self._form.error
        return payloads
