"""An item of a map: its prompt, from a template or a function, and the digests that identify it in a file."""

from __future__ import annotations

import difflib
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias

import msgspec

from llmstream.chats.saved import message_to_json
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.mapping.lines import OWN, fields_of, key_of
from llmstream.streams.options import Prompt, as_messages

__all__ = ["PromptOf", "Row", "Template", "each", "prompt_function", "prompt_name", "row_of"]

# Prompt templates: `Classify: {{review}}` and a row of columns become a prompt.


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
        """Checks the template against a row, before any request.

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


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Any)
else:
    from typing import TypeVar

    Item = TypeVar("Item")


PromptOf: TypeAlias = Callable[[Any], Prompt]


@dataclass(slots=True)
class Row(Generic[Item]):
    """An item on its way.

    key:     of item and prompt, for the file
    request: of the prompt alone, for items that ask the same
    """

    item: Item
    index: int
    fields: dict[str, Any]
    prompt: Prompt = ""
    key: int = 0
    request: int = 0
    error: LLMStreamError | None = None


async def each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any]:
    """The items, of any iterable. A generator is closed at the end, so that its file is not left open."""
    try:
        if isinstance(items, AsyncIterable):
            async for item in items:
                yield item
        else:
            for item in items:
                yield item
    finally:
        if isinstance(items, Generator):
            items.close()
        elif (close := getattr(items, "aclose", None)) is not None:
            await close()


def row_of(item: Any, index: int, prompt_of: PromptOf) -> Row[Any]:
    """An item with its prompt and digests. What the prompt's function raises is the item's error."""
    fields, encoded = fields_of(item)
    row: Row[Any] = Row(item, index, fields)
    try:
        prompt = prompt_of(item)
        if isinstance(prompt, str):
            asked = [prompt.encode("utf-8", "surrogatepass")]
        else:
            prompt = as_messages(prompt)
            asked = [message_to_json(message) for message in prompt]
        row.prompt = prompt
    except LLMStreamError as error:
        row.error = error
    except Exception as error:  # the caller's function
        row.error = InvalidRequest(f"the prompt of item {index} failed: {type(error).__name__}: {error}")
        row.error.__cause__ = error
    if row.error is not None:
        asked = [b"", row.error.message.encode("utf-8", "replace")]
    row.key, row.request = key_of(encoded, *asked), key_of(*asked)
    return row


def prompt_name(prompt: str | Callable[[Any], Prompt] | None) -> str:
    """Identifies a form of the prompt. A function's rows are distinguished by their prompts."""
    return prompt if isinstance(prompt, str) else getattr(prompt, "__qualname__", "")


def prompt_function(prompt: str | Callable[[Any], Prompt] | None) -> PromptOf:
    """The function that makes the prompt of an item; see `map`.

    raises: InvalidRequest for anything but a template or a function
    """
    if prompt is None:
        return _own_prompt
    if isinstance(prompt, str):
        return partial(_filled, Template(prompt))
    if callable(prompt):
        return prompt
    raise InvalidRequest(f"prompt must be a template or a function of an item, got {prompt!r}")


def _filled(template: Template, item: Any) -> str:
    """The template with the columns of an item. Values that JSON cannot hold are columns too."""
    if isinstance(item, Mapping):
        row = item
    elif isinstance(item, str):
        row = {"text": item}
    else:
        row = {"item": item, **{n: getattr(item, n) for n in _attributes(item)}}
    if not template.columns:
        template.check(row)
    return template.fill(row)


def _attributes(item: Any) -> Iterable[str]:
    if isinstance(item, msgspec.Struct):
        return item.__struct_fields__
    return getattr(item, "__dataclass_fields__", ())


def _own_prompt(item: Any) -> Prompt:
    if not isinstance(item, Mapping) or "role" in item:
        prompt: Prompt = item
        return prompt
    for column in ("prompt", "messages"):
        if item.get(column):
            found: Prompt = item[column]
            return found
    columns = ", ".join(str(column) for column in item if column != OWN)
    raise InvalidRequest(
        f"the row has neither a column 'prompt' nor 'messages'; it has: {columns}. Pass a prompt with the "
        "columns that it needs, such as 'Summarize: {{text}}'."
    )
