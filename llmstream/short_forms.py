"""Short forms of values for `repr`: one line, long text cut, payloads as their size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

__all__ = ["amount", "counted", "fields", "quoted"]

# Text of one value: with a name and a role it fits into a line of 110 characters.
_CHARS: Final = 80

_LEAST: Final = 0.000001


def quoted(text: str, limit: int = _CHARS) -> str:
    """The `repr` of the text; if longer than `limit` characters, cut and followed by its length."""
    if len(text) <= limit:
        return repr(text)
    return f"{text[:limit] + '…'!r} ({len(text):,} characters)"


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 message", "1,204 characters"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def amount(cost: float) -> str:
    """A cost in any currency, without an exponent: "0.000125", "1,204.50", "< 0.000001"."""
    if 0 < cost < _LEAST:
        return f"< {_LEAST:f}"
    return f"{cost:,.2f}" if cost >= 1 else f"{cost:.6f}".rstrip("0").rstrip(".")


def fields(value: Any, names: Iterable[str]) -> list[str]:
    """`name=value` of the attributes that are neither None nor empty; text is cut."""
    found = ((name, getattr(value, name)) for name in names)
    return [
        f"{name}={quoted(content) if isinstance(content, str) else repr(content)}"
        for name, content in found
        if content is not None and content != ""
    ]
