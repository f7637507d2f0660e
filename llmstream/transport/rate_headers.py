"""Rate limits as vendors report them in the headers of a response."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

__all__ = ["KINDS", "RateState", "rate_states", "vendor_time"]

KINDS: Final = ("requests", "tokens", "input_tokens", "output_tokens")
"""What is counted, in the order of costs and sizes."""


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ms|[smhd])")
# Numbers from here on are points in time, not durations.
_EPOCH_S: Final = 1e9


class RateState(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of allowance, of KINDS; None for what the vendor did not report.

    reset_s: seconds until the allowance is full again
    """

    limit: float | None = None
    remaining: float | None = None
    reset_s: float | None = None


def rate_states(headers: Mapping[str, str], now: float) -> dict[str, RateState]:
    """The states that a response's headers report, by kind; kinds without a header are absent.

    headers: with names in lower case
    now:     seconds since 1970, against which points in time are read
    source:  `x-ratelimit-{limit,remaining,reset}-{requests,tokens}` and
             `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`
    """
    states = {}
    for kind in KINDS:
        name = kind.replace("_", "-")
        for pattern in (f"x-ratelimit-{{}}-{name}", f"anthropic-ratelimit-{name}-{{}}"):
            state = RateState(
                limit=_count(headers.get(pattern.format("limit"))),
                remaining=_count(headers.get(pattern.format("remaining"))),
                reset_s=_seconds(headers.get(pattern.format("reset")), now),
            )
            if state != RateState():
                states[kind] = state
    for half in ("input_tokens", "output_tokens"):  # for those who count only the sum
        if half in states and states[half].remaining == 0:
            states["tokens"] = RateState(remaining=0.0, reset_s=states[half].reset_s)
    return states


def vendor_time(headers: Mapping[str, str], now: float) -> float:
    """The vendor's time by its `date` header, else ours: points in time are by the vendor's clock."""
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return now


def _count(text: str | None) -> float | None:
    """A count, or None for anything else."""
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
