"""Reads a docstring of ours: prose, and lists such as `timeout_s: seconds until ...`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["Docstring", "read"]

_ITEM = re.compile(r"([A-Za-z_]\w*(?:, \w+)*):\s+(.*)")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_DEFAULT = re.compile(r"\s*Default: (.+?)\.?$")


class Docstring(NamedTuple):
    """A docstring in parts.

    summary: the first paragraph
    prose:   the other paragraphs, as Markdown
    items:   text by the name in front of the colon: parameters and fields, "raises", "returns", "source"
    """

    summary: str = ""
    prose: tuple[str, ...] = ()
    items: Mapping[str, str] = _NONE

    def default(self, name: str) -> tuple[str, str]:
        """The text of an item without its last words `Default: ...`, and that default or ""."""
        text = self.items.get(name, "")
        found = _DEFAULT.search(text)
        return (text[: found.start()].rstrip(" ;"), found[1]) if found else (text, "")


def read(text: str | None) -> Docstring:
    """The parts of a docstring. A paragraph whose every line begins or continues an item is a list."""
    prose: list[str] = []
    items: dict[str, str] = {}
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        found = _items(paragraph)
        if found is None:
            prose.append(paragraph)
        else:
            items |= found
    return Docstring(prose[0] if prose else "", tuple(prose[1:]), items)


def _items(paragraph: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    names: list[str] = []
    for line in paragraph.splitlines():
        match = _ITEM.fullmatch(line)
        if match:
            names = match[1].split(", ")
            found |= dict.fromkeys(names, match[2].strip())
        elif names and line.startswith("  "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        else:
            return None
    return found
