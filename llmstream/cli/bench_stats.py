"""What many numbers come to: percentiles, a mean, and a histogram. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

__all__ = ["Bin", "Spread", "histogram", "percentile", "spread"]

_LOGARITHMIC_FROM = 20
"""Where the largest value is so many times the smallest, bins of equal width would hide the most."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How a quantity is distributed; the unit is that of the values."""

    count: int
    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float


class Bin(NamedTuple):
    """A histogram's bar: low <= value < high, the last one with its end."""

    low: float
    high: float
    size: int


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value below which so many percent lie, interpolated linearly between neighbours.

    ordered: ascending, not empty
    source:  Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, definition 7
    """
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values: Sequence[float]) -> Spread | None:
    """The distribution of the values; None where there are none."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Spread(
        count=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        min=ordered[0],
        p50=p50,
        p90=p90,
        p99=p99,
        max=ordered[-1],
    )


def histogram(values: Sequence[float], bins: int = 10) -> list[Bin]:
    """The values counted in bins of equal width, or of equal ratio where they span a wide range.

    One bin where all values are equal, none where there are no values.
    """
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [Bin(low, high, len(values))]
    wide = low > 0 and high / low >= _LOGARITHMIC_FROM
    edges = [low * (high / low) ** (i / bins) if wide else low + (high - low) * i / bins for i in range(bins)]
    edges.append(high)
    counts = [0] * bins
    for value in values:
        counts[_bin_of(value, edges)] += 1
    return [Bin(a, b, count) for (a, b), count in zip(pairwise(edges), counts, strict=True)]


def _bin_of(value: float, edges: Sequence[float]) -> int:
    for place in range(len(edges) - 2, 0, -1):
        if value >= edges[place]:
            return place
    return 0
