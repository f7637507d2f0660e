"""Reads values that have one form on several wires: times, and lists of objects."""

from __future__ import annotations

import datetime
from typing import Any, Final

__all__ = ["iso_time", "objects_in", "unix_time"]

# A larger number is not in seconds, and may be past the last year of datetime (9999).
_YEAR_3000_S: Final = 32503680000


def unix_time(value: object) -> datetime.datetime | None:
    """Reads seconds since 1970, in UTC; None for any other value, such as milliseconds."""
    if isinstance(value, (int, float)) and 0 < value < _YEAR_3000_S:
        return datetime.datetime.fromtimestamp(value, datetime.UTC)
    return None


def iso_time(value: object) -> datetime.datetime | None:
    """Reads an ISO 8601 time; None for any other value. Digits past microseconds are dropped."""
    try:
        return datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def objects_in(value: object) -> list[dict[str, Any]]:
    """Returns the objects of a list, without its other items; [] if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
