"""Writes the parts of a request that all dialects share.

`RequestWriter` maps the settings by a table of `Field`, collects warnings, and makes the HTTP request.
A dialect's `request.py` adds tools, reasoning, output format and messages. The server side reads settings
by the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from llmstream.chats.content import Text
from llmstream.chats.message import Message
from llmstream.dialects.base import Encoded
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.request import ProviderTool, Request, ResponseFormat, Settings, ToolSpec

__all__ = [
    "ANSWER_IN_JSON",
    "NONE_REFUSED",
    "Field",
    "FieldTable",
    "Refusal",
    "RequestWarnings",
    "RequestWriter",
    "described_schema",
    "format_instruction",
    "mentions_json",
    "merged",
    "name_and_description",
    "object_schema",
    "options_of",
]


def options_of(request: Request, key: str, provider: str) -> dict[str, Any]:
    """Returns `provider_options` for a dialect's key; those under the provider's name override them."""
    ours = dict(request.provider_options.get(key, {}))
    return ours if provider == key else merged(ours, request.provider_options.get(provider, {}))


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merges two objects field by field; values in `over` win."""
    out = dict(base)
    for key, value in over.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out


# Warnings.


class RequestWarnings(list[Warning]):
    """A list with a fast lookup of messages: a long history may give a warning for each of its calls.

    It grows by `append`, `extend` and `+=` only, and shrinks by `cut`.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        super().__init__()
        # Not a set, which takes 216 bytes while it is empty; a request is in memory as long as its response.
        self._texts: dict[str, None] = {}

    def append(self, warning: Warning) -> None:
        """Appends a warning."""
        super().append(warning)
        if isinstance(warning, OtherWarning):
            self._texts[warning.message] = None

    def extend(self, warnings: Iterable[Warning]) -> None:
        """Appends several warnings."""
        for warning in warnings:
            self.append(warning)

    def __iadd__(self, warnings: Iterable[Warning]) -> Self:  # type: ignore[override,misc]  # as extend
        self.extend(warnings)
        return self

    def __contains__(self, warning: object) -> bool:
        if isinstance(warning, OtherWarning):
            return warning.message in self._texts
        return super().__contains__(warning)

    def cut(self, length: int) -> None:
        """Removes the warnings after the first `length`."""
        if length < len(self):
            del self[length:]
            self._texts = {one.message: None for one in self if isinstance(one, OtherWarning)}

    def note(self, message: str) -> None:
        """Appends a warning with a message."""
        self.append(OtherWarning(message))

    def note_once(self, message: str) -> None:
        """Appends a warning, unless it is already present."""
        if message not in self._texts:
            self.append(OtherWarning(message))

    def unsupported(self, setting: str, details: str | None = None) -> None:
        """Appends a warning about a setting that was left out."""
        self.append(UnsupportedSetting(setting, details))

    def unsupported_tool(self, tool: ToolSpec | ProviderTool, details: str) -> None:
        """Appends a warning about a tool that was left out."""
        name = tool.name if isinstance(tool, ToolSpec) else tool.name or tool.type
        self.append(UnsupportedTool(name, details))


# Settings by a vendor's names, and the HTTP request.


class Field(msgspec.Struct, frozen=True):
    """One of our settings on a vendor's wire.

    name:      of the setting in `Settings`
    wire_name: the vendor's name of it
    low, high: range that the API accepts, both or neither; other numbers are clamped, with a warning
    most:      number of stop sequences that the API accepts; the others are left out, with a warning
    limited:   whether any of these is set
    """

    name: str
    wire_name: str
    low: float | None = None
    high: float | None = None
    most: int | None = None
    limited: bool = False

    def __post_init__(self) -> None:
        limited = not (self.low is self.high is self.most is None)
        msgspec.structs.force_setattr(self, "limited", limited)

    @property
    def kind(self) -> Literal["number", "integer", "strings"]:
        """Type of its values."""
        if self.name == "stop":
            return "strings"
        return "integer" if self.name in _INTEGERS else "number"

    def fit(self, value: Any) -> Any:
        """Returns the nearest value that the API accepts."""
        if self.most is not None:
            return value[: self.most]
        if self.low is not None and value < self.low:
            return self.low
        if self.high is not None and value > self.high:
            return self.high
        return value

    def fit_note(self, given: Any, sent: Any) -> str:
        """Returns the warning about a value that was changed."""
        if self.most is not None:
            return (
                f"only the first {self.most} of {len(given)} stop sequences were sent: the API takes no more"
            )
        return f"{self.name} {given:g} became {sent:g}: the API takes {self.low:g} to {self.high:g}"


NONE_REFUSED: Final[Mapping[str, str]] = {}
Refusal: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
"""Returns why the model does not support a setting, or None. Takes its name and the settings before it."""

_INTEGERS: Final = frozenset({"top_k", "max_output_tokens", "seed"})
# `parallel_tool_calls` is not here: vendors have it with their tools, under separate conditions.
_SETTINGS: Final = tuple(name for name in Settings.__struct_fields__ if name != "parallel_tool_calls")


class FieldTable:
    """The settings that a vendor supports, in the order of the body.

    unsupported: names of the settings that have no field
    """

    def __init__(self, *fields: Field) -> None:
        names = [field.name for field in fields]
        self.unsupported = tuple(name for name in _SETTINGS if name not in names)
        self._fields = fields
        # A request sets few of them, so one call reads them all.
        self._values = (
            attrgetter(*names) if len(names) > 1 else lambda settings: (getattr(settings, names[0]),)
        )

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def with_values(self, settings: Settings) -> Iterator[tuple[Field, Any]]:
        """Yields each field that is set, with its value."""
        return zip(self._fields, self._values(settings), strict=True)


class RequestWriter:
    """Writes one request.

    warnings: about settings that were left out or changed
    options:  fields that the caller adds to the body, from the dialect's key and the provider's name
    """

    def __init__(self, request: Request, *, provider: str, key: str) -> None:
        self.request = request
        self.provider = provider
        self.warnings = RequestWarnings()
        self.options = options_of(request, key, provider)

    def settings(
        self, fields: FieldTable, refused: Mapping[str, str] = NONE_REFUSED, refusal: Refusal | None = None
    ) -> dict[str, Any]:
        """Returns the settings of the request by the vendor's names, fitted to what the API accepts.

        A setting that is refused or has no field is left out, with a warning.

        refused: reason by the name of a setting that the model does not support
        refusal: computes the reason, if it depends on values or on other settings
        """
        settings, out = self.request.settings, {}
        left: dict[str, Any] = {}
        for name in fields.unsupported:
            if getattr(settings, name) not in (None, ()):
                self.warnings.unsupported(name)
        for field, value in fields.with_values(settings):
            if value is None or value == ():
                continue
            if field.name in refused:
                self.warnings.unsupported(field.name, refused[field.name])
                continue
            sent = field.fit(value) if field.limited else value
            if refusal is not None:
                left[field.name] = sent
                details = refusal(field.name, left)
                if details is not None:
                    self.warnings.unsupported(field.name, details)
                    del left[field.name]
                    continue
            if sent != value:
                self.warnings.note(field.fit_note(value, sent))
            out[field.wire_name] = sent
        return out

    def encoded(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Encoded:
        """Returns the HTTP request of a body, and the warnings. The caller's headers win, in any case.

        raises: InvalidRequest for values that JSON cannot represent
        """
        try:
            data = msgspec.json.encode(body)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidRequest(
                f"the request cannot be written as JSON: {error}", provider=self.provider
            ) from None
        sent = {"content-type": "application/json", **(headers or {})}
        for name, value in self.request.headers.items():
            sent[name.lower()] = value
        return Encoded(HttpRequest(path, data, sent), self.warnings)


def name_and_description(tool: ToolSpec) -> dict[str, Any]:
    """Returns name and description, without an empty description."""
    if tool.description:
        return {"name": tool.name, "description": tool.description}
    return {"name": tool.name}


def object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the input schema of a tool for vendors that require its `type`."""
    if not schema:
        return {"type": "object", "properties": {}}
    return schema if "type" in schema else {"type": "object", **schema}


# Requesting JSON in the prompt, if the API has no field for it or the field is not enough.
#
# For JSON of any shape, vendors require the word "JSON" in the conversation as well. OpenAI and compatible
# servers reject the request without it; on others the model may write white space without end.
# source: "JSON mode" in the documents of OpenAI, DeepSeek, Cohere and Ollama

ANSWER_IN_JSON: Final = "Answer with a JSON object and nothing else."


def mentions_json(messages: Iterable[Message]) -> bool:
    """Whether the conversation contains "JSON"."""
    return any(
        "json" in part.text.lower()
        for message in messages
        for part in message.parts
        if isinstance(part, Text)
    )


def format_instruction(wanted: ResponseFormat) -> str:
    """Returns the instruction to respond in this format."""
    if wanted.schema is None:
        return ANSWER_IN_JSON
    schema = msgspec.json.encode(described_schema(wanted)).decode()
    return f"{ANSWER_IN_JSON} It has to fit this JSON schema: {schema}"


def described_schema(wanted: ResponseFormat) -> dict[str, Any]:
    """Adds the description of the format to the schema, for wires without a field for it."""
    schema = wanted.schema or {}
    if not wanted.description:
        return schema
    own = schema.get("description")
    words = f"{wanted.description} {own}" if isinstance(own, str) and own else wanted.description
    return {**schema, "description": words}
