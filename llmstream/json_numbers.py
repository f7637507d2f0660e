"""JSON numbers that are still streaming: what may become one, and what to show of it."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

from llmstream.errors import LimitExceeded

__all__ = [
    "MAX_NUMBER_CHARS",
    "check_length",
    "end_of_run",
    "is_number",
    "number",
    "only_grows",
    "overflows",
    "shown",
    "valid_chars",
    "with_whole_numbers",
]

# Default limit of CPython's int(); reading longer ones takes quadratic time.
MAX_NUMBER_CHARS = 4300
# The lowest value that sys.set_int_max_str_digits takes; shorter numbers are always readable.
_SAFE_NUMBER_CHARS = 640

_NOT_NUMBER = re.compile(r"[^-+.0-9eE]")
_PREFIX = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:[eE][-+]?[0-9]*)?)?|[eE][-+]?[0-9]*)?)?")
_COMPLETE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"-?[0-9]+")
_GROWING_EXPONENT = re.compile(r"[eE]\+?[0-9]")


def end_of_run(text: str, at: int) -> int:
    """Returns where the characters that occur in numbers end."""
    found = _NOT_NUMBER.search(text, at)
    return found.start() if found else len(text)


def valid_chars(token: str) -> int:
    """Returns how many leading characters can begin a number."""
    found = _PREFIX.match(token)
    return found.end() if found else 0


def is_number(token: str) -> bool:
    """Whether the token is a complete number."""
    return _COMPLETE.fullmatch(token) is not None


def only_grows(token: str) -> bool:
    """Whether further digits can only make it larger: a number past the range of a double stays invalid."""
    return _GROWING_EXPONENT.search(token) is not None


def number(token: str) -> int | float:
    """Returns the value of a number: an int if it has neither fraction nor exponent; may be infinite."""
    return int(token) if token.lstrip("-").isdigit() else float(token)


def overflows(value: int | float) -> bool:
    """Whether a double cannot hold the value; integers have no such limit."""
    return isinstance(value, float) and math.isinf(value)


def shown(token: str) -> int | float | None:
    """Returns the value of the longest prefix that is a finite number, or None."""
    found = _COMPLETE.match(token)
    if found is None:
        return None
    value = number(found[0])
    # More digits than a double has, and maybe a negative exponent to come.
    if overflows(value):
        integer = _INTEGER.match(token)
        return int(integer[0]) if integer else None
    return value


def check_length(token: str) -> None:
    """Rejects a number that takes too long to read.

    raises: LimitExceeded past 4300 characters, or fewer by sys.set_int_max_str_digits
    """
    if len(token) <= _SAFE_NUMBER_CHARS:
        return
    limit = min(sys.get_int_max_str_digits() or MAX_NUMBER_CHARS, MAX_NUMBER_CHARS)
    if len(token) > limit:
        raise LimitExceeded(
            f"The JSON text contains a number of more than {limit} characters. Request it as a string.",
            reason="limit",
        )


def with_whole_numbers(value: Any) -> Any:
    """Converts 3.0 to 3: it is an integer in JSON, and some vendors send every number like this."""
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: with_whole_numbers(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
