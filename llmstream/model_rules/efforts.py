"""How much a model is asked to think: the efforts in order, and the nearest that a model knows."""

from __future__ import annotations

from typing import Final

__all__ = ["ORDER", "nearest_effort"]

ORDER: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From least to most. A vendor's own words stand in its dialect."""


def nearest_effort(effort: str, known: tuple[str, ...]) -> str:
    """The effort itself if the model knows it, else the next higher, else the highest.

    known: at least one effort, in the order of `ORDER`
    """
    place = ORDER.index(effort)
    return next((name for name in known if ORDER.index(name) >= place), known[-1])
