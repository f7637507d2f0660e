"""What a vendor says in headers about its own rate limits, as values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

__all__ = ["RateState", "rate_states"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ms|[smhd])")
_EPOCH_S: Final = 1e9
"""Numbers from here on are points in time, not durations."""


class RateState(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of allowance ("requests" or "tokens"); None where the vendor did not say.

    reset_s: seconds until the allowance is whole again
    """

    limit: float | None = None
    remaining: float | None = None
    reset_s: float | None = None


def rate_states(headers: Mapping[str, str], now: float) -> dict[str, RateState]:
    """The states that an answer's headers tell of, by kind; kinds of which nothing is said are absent.

    headers: with names in lower case
    now:     seconds since 1970, against which points in time are read
    source:  `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` and
             `anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}`
    """
    states = {}
    for kind in ("requests", "tokens"):
        for pattern in (f"x-ratelimit-{{}}-{kind}", f"anthropic-ratelimit-{kind}-{{}}"):
            state = RateState(
                limit=_count(headers.get(pattern.format("limit"))),
                remaining=_count(headers.get(pattern.format("remaining"))),
                reset_s=_seconds(headers.get(pattern.format("reset")), now),
            )
            if state != RateState():
                states[kind] = state
    for half in ("input-tokens", "output-tokens"):  # they count only where one of them is used up
        remaining = _count(headers.get(f"anthropic-ratelimit-{half}-remaining"))
        if remaining == 0:
            reset_s = _seconds(headers.get(f"anthropic-ratelimit-{half}-reset"), now)
            states["tokens"] = RateState(remaining=0.0, reset_s=reset_s)
    return states


def _count(text: str | None) -> float | None:
    """A count, or None where it is none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _seconds(text: str | None, now: float) -> float | None:
    """Seconds from now: "6m0s", "20ms", "1.5", a time of RFC 3339, or seconds since 1970."""
    if not text:
        return None
    number = _count(text)
    if number is not None:
        return number if number < _EPOCH_S else max(0.0, number - now)
    if _SPAN.sub("", text.strip()) == "":
        return sum(float(count) * _UNITS[unit] for count, unit in _SPAN.findall(text))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return max(0.0, moment.timestamp() - now)
