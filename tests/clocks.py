"""Times in whole units, for comparisons."""

from __future__ import annotations


def nanoseconds(seconds: float) -> int:
    """Rounded to a clock's resolution, which is coarser than the rounding errors of differences of floats."""
    return round(seconds * 1e9)
