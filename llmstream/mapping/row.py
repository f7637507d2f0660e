"""An item of a map: its prompt, and the digests by which a file knows it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import msgspec

from llmstream.chats.saved import message_to_json
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.mapping.lines import OWN, fields_of, key_of
from llmstream.mapping.template import Template
from llmstream.streams.options import Prompt, as_messages

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Any)
else:
    from typing import TypeVar

    Item = TypeVar("Item")

__all__ = ["PromptOf", "Row", "prompt_function", "prompt_name", "row_of"]

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
