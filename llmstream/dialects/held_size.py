"""How much memory a value takes that a decoder keeps of an answer."""

from __future__ import annotations

import sys

__all__ = ["held_size"]


def held_size(value: object) -> int:
    """Bytes of a JSON value, with all that is in it; linear in its size."""
    size = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        size += sys.getsizeof(one)
        if isinstance(one, dict):
            waiting.extend(one)
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)
    return size
