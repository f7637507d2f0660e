"""Token counts as Google's wires write them: whole numbers, sometimes as floats or text."""

from __future__ import annotations

__all__ = ["added", "token_count"]


def token_count(value: object) -> int | None:
    """A number of tokens, however it was written; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value // 1 and abs(value) < 2**63 else None


def added(a: int | None, b: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    if a is None:
        return b
    return a if b is None else a + b
