"""OpenRouter's `reasoning_details`: fragments of typed reasoning, put together to be echoed unmodified.

Fragments belong together by (type, index); an id that differs, or text after a signature, starts
a detail of its own. An Anthropic signature comes as a detail without text, even after tool calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from llmstream.dialects.held_size import held_size

__all__ = ["ReasoningDetails", "joined"]

_GROWING: Final = ("text", "summary", "data")
_DETAIL_BYTES: Final = 600  # two dicts, a tuple, a place in a list and in a dict
_SLOT_BYTES: Final = 16


class ReasoningDetails:
    """Fragments in, whole details out.

    held: what they take, in bytes
    """

    def __init__(self) -> None:
        self.held = 0
        self._found: list[tuple[dict[str, Any], dict[str, list[str]]]] = []
        self._latest: dict[tuple[object, object], tuple[dict[str, Any], dict[str, list[str]]]] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def items(self) -> list[dict[str, Any]]:
        """Whole details in order of appearance."""
        return [{**fixed, **{key: "".join(p) for key, p in grown.items()}} for fixed, grown in self._found]

    def add(self, fragments: Iterable[object]) -> str:
        """Takes the fragments of one chunk; returns the readable text they add."""
        said = ""
        for fragment in fragments:
            if isinstance(fragment, dict):
                self._add(fragment)
                for key in ("text", "summary"):
                    if isinstance(fragment.get(key), str):
                        said += fragment[key]
        return said

    def clear(self) -> None:
        """What was read has been handed on."""
        self._found = []
        self._latest = {}
        self.held = 0

    def _add(self, fragment: dict[str, Any]) -> None:
        index = fragment.get("index")
        key = (str(fragment.get("type")), index if isinstance(index, int) else None)
        latest = self._latest.get(key)
        if latest is None or _is_another(latest[0], fragment):
            latest = ({}, {})
            self._latest[key] = latest
            self._found.append(latest)
            self.held += _DETAIL_BYTES
        fixed, grown = latest
        for name, value in fragment.items():
            if name in _GROWING and isinstance(value, str):
                grown.setdefault(name, []).append(value)
                self.held += sys.getsizeof(value) + _SLOT_BYTES
            elif value is not None or name not in fixed:
                if fixed.get(name) != value or name not in fixed:  # fragments repeat type and index
                    self.held += held_size(name) + held_size(value) + _SLOT_BYTES
                fixed[name] = value


def _is_another(known: dict[str, Any], fragment: dict[str, Any]) -> bool:
    if fragment.get("id") and known.get("id") and fragment["id"] != known["id"]:
        return True
    return bool(known.get("signature")) and bool(fragment.get("text"))


def joined(lists: Iterable[object]) -> list[dict[str, Any]]:
    """The details of one assistant message from all its parts, as the vendor wants them back."""
    whole = ReasoningDetails()
    for details in lists:
        if isinstance(details, list):
            whole.add(details)
    return whole.items
