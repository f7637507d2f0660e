"""What a function's docstring tells a model: the tool's description and its arguments'."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["Described", "describe"]


class Described(msgspec.Struct, frozen=True):
    """A description, and one for each argument that has one."""

    description: str
    arguments: dict[str, str]


def describe(function: Callable[..., Any]) -> Described:
    """Reads a docstring in the Google, NumPy, Sphinx or Epydoc style.

    Without the package docstring_parser, the first paragraph is the description and the
    arguments have none.
    """
    text = inspect.getdoc(function) or ""
    try:
        import docstring_parser
    except ImportError:
        return Described(text.partition("\n\n")[0].strip(), {})
    try:
        found = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Described(text.partition("\n\n")[0].strip(), {})
    description = "\n\n".join(filter(None, (found.short_description, found.long_description)))
    arguments = {p.arg_name: " ".join(p.description.split()) for p in found.params if p.description}
    return Described(description.strip(), arguments)
