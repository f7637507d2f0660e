"""Prompt templates: `Classify: {{review}}` and a row of columns become a prompt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from llmstream.errors import InvalidRequest

__all__ = ["Template"]

# `{{column}}`, or `{{"text"}}` for text that would otherwise be read as a placeholder.
# Each alternative is bounded, and no two parts of it match the same character: the search is linear.
_PLACE: Final = re.compile(r'\{\{(\s{0,9}"(?:[^"\\]|\\.){0,200}"\s{0,9}|[^{}"\n]{1,200})\}\}')

_SINGLE: Final = re.compile(r"(?<!\{)\{([^{}\s\"':,]{1,200})\}(?!\})")

_SHOWN_COLUMNS: Final = 12


class Template:
    """A prompt with `{{column}}` where the value of a column goes.

    Single braces are text, so that JSON and code need no escaping. `{{"{{"}}` writes `{{`. `{{user.name}}`
    reads a column that holds an object. Text is inserted as it is, null as nothing, other values as JSON.
    Inserted values are not searched for placeholders.

    columns: names in it, in order
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._pieces: list[tuple[str, str]] = []  # text, and the column after it or ""
        at, before = 0, ""
        for found in _PLACE.finditer(text):
            before += text[at : found.start()]
            at, name = found.end(), found[1].strip()
            if name.startswith('"'):
                before += _literal(name)
            elif not name:
                before += found[0]
            else:
                self._pieces.append((before, name))
                before = ""
        self._pieces.append((before + text[at:], ""))
        self.columns = tuple(name for _, name in self._pieces if name)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def check(self, row: Mapping[str, Any]) -> None:
        """Checks the template against a row, before anything is asked.

        raises: InvalidRequest for a column that is not there, and for `{column}` in single braces where no
                placeholder has two: then it was meant as one
        """
        self.fill(row)
        if self.columns:
            return
        for name in _SINGLE.findall(self.text):
            if name in row:
                raise InvalidRequest(
                    f"the prompt has {{{name}}}, which is plain text. Write {{{{{name}}}}} to insert the "
                    f'column {name}; write {{{{"{{{name}}}"}}}} for the text itself.'
                )

    def fill(self, row: Mapping[str, Any]) -> str:
        """The prompt of a row.

        raises: InvalidRequest for a column that the row does not have
        """
        filled = []
        for before, name in self._pieces:
            filled.append(before)
            if name:
                filled.append(_shown(_value(row, name)))
        return "".join(filled)


def _literal(quoted: str) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"{{{{{quoted}}}}} in the prompt is not a JSON string: {error}") from None


def _value(row: Mapping[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    value: Any = row
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise InvalidRequest(f"the row has no column {name!r}. {_has(row, name)}")
        value = value[step]
    return value


def _has(row: Mapping[str, Any], name: str) -> str:
    """The columns of a row, or the one that was probably meant."""
    names = [str(column) for column in row]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean {{{{{close[0]}}}}}?"
    more = ", ..." if len(names) > _SHOWN_COLUMNS else ""
    return f"It has: {', '.join(names[:_SHOWN_COLUMNS]) or 'none'}{more}."


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
