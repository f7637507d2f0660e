"""How the bytes of a fuzzer are read: three that choose, then the body."""

from __future__ import annotations

from typing import NamedTuple

HEADER_BYTES = 3


class Input(NamedTuple):
    """A body, what to do with it, and the pieces in which it is read the second time.

    mode: bits whose meaning is the target's
    """

    mode: int
    body: bytes
    cuts: tuple[int, int]

    def pieces(self, body: bytes) -> tuple[bytes, bytes, bytes]:
        """The body in three, any of which may be empty."""
        first, second = sorted(len(body) * cut // 255 for cut in self.cuts)
        return body[:first], body[first:second], body[second:]


def read(data: bytes) -> Input:
    """What the fuzzer means; missing bytes are zeros."""
    mode, *cuts = data[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0")
    return Input(mode, data[HEADER_BYTES:], (cuts[0], cuts[1]))


def write(body: bytes, mode: int = 0) -> bytes:
    """A seed: cut near its first and second third."""
    return bytes((mode, 90, 160)) + body
