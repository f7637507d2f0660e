"""Writing a request, as far as it is the same on every wire.

`RequestWriter` maps the settings by a table of `Field`, gathers warnings, and makes the HTTP request.
A vendor's `request.py` adds what is its own: tools, reasoning, output format, messages. The server side
reads settings by the same table.
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
    "in_words",
    "merged",
    "name_and_description",
    "object_schema",
    "options_of",
    "says_json",
]


def options_of(request: Request, key: str, provider: str) -> dict[str, Any]:
    """`provider_options` for a dialect's key, with those for the provider by its own name on top."""
    ours = dict(request.provider_options.get(key, {}))
    return ours if provider == key else merged(ours, request.provider_options.get(provider, {}))


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Both, objects field by field; what is in `over` wins."""
    out = dict(base)
    for key, value in over.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out


# The warnings of one request, in which each is found at once.


class RequestWarnings(list[Warning]):
    """A list that knows which texts are in it: a long history may give a warning for each of its calls.

    It grows by `append`, `extend` and `+=` only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: set[str] = set()

    def append(self, warning: Warning) -> None:
        """One more."""
        super().append(warning)
        if isinstance(warning, OtherWarning):
            self._texts.add(warning.message)

    def extend(self, warnings: Iterable[Warning]) -> None:
        """Several more."""
        for warning in warnings:
            self.append(warning)

    def __iadd__(self, warnings: Iterable[Warning]) -> Self:  # type: ignore[override,misc]  # as extend
        self.extend(warnings)
        return self

    def __contains__(self, warning: object) -> bool:
        if isinstance(warning, OtherWarning):
            return warning.message in self._texts
        return super().__contains__(warning)

    def note(self, message: str) -> None:
        """A warning in prose."""
        self.append(OtherWarning(message))

    def note_once(self, message: str) -> None:
        """The same, unless it is there already."""
        if message not in self._texts:
            self.append(OtherWarning(message))

    def unsupported(self, setting: str, details: str | None = None) -> None:
        """A setting that was left out."""
        self.append(UnsupportedSetting(setting, details))

    def unsupported_tool(self, tool: ToolSpec | ProviderTool, details: str) -> None:
        """A tool that was left out."""
        name = tool.name if isinstance(tool, ToolSpec) else tool.name or tool.type
        self.append(UnsupportedTool(name, details))


# Settings by a vendor's names, and the frame of every request.


class Field(msgspec.Struct, frozen=True):
    """One of our settings on a vendor's wire.

    name:      of the setting in `Settings`
    wire_name: what the vendor calls it
    low, high: what the API takes, both or neither; other numbers move to the nearest, with a warning
    most:      how many stop sequences the API takes; the others are left out, with a warning
    limited:   whether any of these is given
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
        """What its values are."""
        if self.name == "stop":
            return "strings"
        return "integer" if self.name in _INTEGERS else "number"

    def fit(self, value: Any) -> Any:
        """The nearest value that the API takes."""
        if self.most is not None:
            return value[: self.most]
        if self.low is not None and value < self.low:
            return self.low
        if self.high is not None and value > self.high:
            return self.high
        return value

    def fit_note(self, given: Any, sent: Any) -> str:
        """The warning about a value that did not fit."""
        if self.most is not None:
            return (
                f"only the first {self.most} of {len(given)} stop sequences were sent: the API takes no more"
            )
        return f"{self.name} {given:g} became {sent:g}: the API takes {self.low:g} to {self.high:g}"


NONE_REFUSED: Final[Mapping[str, str]] = {}
Refusal: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
"""Why the model does not take a setting, or None: its name, and the settings before it that are sent."""

_INTEGERS: Final = frozenset({"top_k", "max_output_tokens", "seed"})
# Vendors have `parallel_tool_calls` among their tools, under conditions of their own.
_SETTINGS: Final = tuple(name for name in Settings.__struct_fields__ if name != "parallel_tool_calls")


class FieldTable:
    """The settings that a vendor takes, in the order in which the body has them.

    unsupported: names of the settings that have no field
    """

    def __init__(self, *fields: Field) -> None:
        names = [field.name for field in fields]
        self.unsupported = tuple(name for name in _SETTINGS if name not in names)
        self._fields = fields
        # Every request reads all settings and sets few of them, so one call reads them all.
        self._values = (
            attrgetter(*names) if len(names) > 1 else lambda settings: (getattr(settings, names[0]),)
        )

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def with_values(self, settings: Settings) -> Iterator[tuple[Field, Any]]:
        """Each field and the value of its setting."""
        return zip(self._fields, self._values(settings), strict=True)


class RequestWriter:
    """What writing one request takes on every wire.

    warnings: what is left out or changed
    options:  the vendor's own fields that the caller adds, by this dialect's key and by the provider's name
    """

    def __init__(self, request: Request, *, provider: str, key: str) -> None:
        self.request = request
        self.provider = provider
        self.warnings = RequestWarnings()
        self.options = options_of(request, key, provider)

    def settings(
        self, fields: FieldTable, refused: Mapping[str, str] = NONE_REFUSED, refusal: Refusal | None = None
    ) -> dict[str, Any]:
        """The settings of the request by the vendor's names, each as near as the API takes it.

        What is refused, or has no field, is left out with a warning.

        refused: why the model does not take settings, by name
        refusal: the same, where it depends on values or on other settings
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
        """The HTTP request of a body, and the warnings. Headers of the caller's win, in any case.

        raises: InvalidRequest for values that JSON has no form for
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
    """The fields of a function that most wires have; none for an empty description."""
    if tool.description:
        return {"name": tool.name, "description": tool.description}
    return {"name": tool.name}


def object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The input schema of a tool for vendors that want its type named."""
    if not schema:
        return {"type": "object", "properties": {}}
    return schema if "type" in schema else {"type": "object", **schema}


# How JSON is asked for in the prompt: where there is no field for it, or the field is not enough.
#
# A vendor that answers in JSON of any shape wants to read the word in the conversation as well. OpenAI
# and those like it refuse the request without; with others the model may write white space for ever.
# source: "JSON mode" in the documents of OpenAI, DeepSeek, Cohere and Ollama

ANSWER_IN_JSON: Final = "Answer with a JSON object and nothing else."


def says_json(messages: Iterable[Message]) -> bool:
    """Whether the conversation has the word."""
    return any(
        "json" in part.text.lower()
        for message in messages
        for part in message.parts
        if isinstance(part, Text)
    )


def in_words(wanted: ResponseFormat) -> str:
    """The whole wish as an instruction."""
    if wanted.schema is None:
        return ANSWER_IN_JSON
    schema = msgspec.json.encode(described_schema(wanted)).decode()
    return f"{ANSWER_IN_JSON} It has to fit this JSON schema: {schema}"


def described_schema(wanted: ResponseFormat) -> dict[str, Any]:
    """The schema with the description of the format in it, for wires that have no other place."""
    schema = wanted.schema or {}
    if not wanted.description:
        return schema
    own = schema.get("description")
    words = f"{wanted.description} {own}" if isinstance(own, str) and own else wanted.description
    return {**schema, "description": words}
