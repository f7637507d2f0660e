"""The signature of a tool's function: the schema and descriptions for the model, and the `ToolContext`.

`Signature` also converts the JSON arguments of a call into those of the function.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic

import msgspec

from llmstream.errors import InvalidRequest, InvalidToolInput
from llmstream.json_types import (
    decoder,
    field_default,
    is_field,
    readable,
    resolved,
    schemas,
    unsupported_type,
    with_whole_numbers,
    without_empty_nulls,
)

if TYPE_CHECKING:
    from llmstream.chats.message import Message

__all__ = [
    "Described",
    "Signature",
    "ToolContext",
    "check_arguments",
    "describe",
    "is_context",
    "object_text",
    "takes",
]


# The context: a parameter that the model never sees.

if TYPE_CHECKING:  # a default (PEP 696) is what type checkers know, and Python from 3.13 on
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


async def _nowhere(value: Any) -> None:
    """Ignores progress; the default if there is no listener."""


@dataclass(frozen=True, slots=True)
class ToolContext(Generic[Deps]):
    """Passed to the parameter of a tool that is annotated with it; the model never sees that parameter.

    `ToolContext[Shop]` declares the type of `deps` for type checkers; nothing is checked at run time.

    call_id:   the id of the call
    tool_name: the name that the model called
    step:      the step of the run, from 0
    messages:  copies of the conversation at the start of the call, made when they are read
    deadline:  when the run ends at the latest, in loop time; None for no deadline
    note:      the note of the person who approved the call; "" without an approval
    deps:      the application's object, from `Agent(deps=...)` or `stream(deps=...)`
    key:       globally unique for this call, and the same when a durable run repeats it: an
               idempotency key for a service that the tool calls
    continued: where the run of a sub-agent resumes; None for all other calls
    """

    call_id: str = ""
    tool_name: str = ""
    step: int = 0
    messages: Sequence[Message] = ()
    deadline: float | None = None
    deps: Deps = None  # type: ignore[assignment]  # where no agent gave one
    note: str = ""
    key: str = ""
    steps: Any = field(default=None, repr=False, compare=False)  # where a sub-agent records its steps
    price: Any = field(default=None, repr=False, compare=False)  # for a sub-agent without its own price
    continued: Any = field(default=None, repr=False, compare=False)
    reporter: Callable[[Any], Awaitable[None]] = field(default=_nowhere, repr=False, compare=False)

    async def report(self, value: Any) -> None:
        """Reports progress: a preliminary result, like a `yield` of an async generator.

        Waits if the reader of the run is slower than the tool.
        """
        await self.reporter(value)

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, at least 0; None without a deadline. Call it in a coroutine."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - asyncio.get_running_loop().time())


def is_context(annotation: Any) -> bool:
    """Whether a parameter with this annotation takes the context: `ToolContext`, alone or in a union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(is_context(choice) for choice in typing.get_args(annotation))
    # `ToolContext[Shop]` is not a class, but its origin is.
    found = typing.get_origin(annotation) or annotation
    return inspect.isclass(found) and issubclass(found, ToolContext)


# All other parameters.

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
# The text costs tokens in the next request, which already contains the schema.
_SCHEMA_EXCERPT_CHARS: Final = 600
_EXPECTED: Final = re.compile(r"Expected (?P<wanted>.+?)(?:, got (?P<got>.+))?")
_AT: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")

_NO_ARGUMENTS: Final = ("", "null")


def object_text(arguments: str) -> str:
    """The JSON text of a call's arguments; "" and `null`, which models send for no arguments, become `{}`."""
    text = arguments.strip()
    return "{}" if text in _NO_ARGUMENTS else text


# Marks an argument that the model omitted: the function's own default applies.
_ABSENT: Final = object()


class Signature:
    """The parameters of a function, read once.

    schema:      JSON schema of the object of arguments, with nested types in its `$defs`
    context_key: the parameter that takes the `ToolContext`, which is not in the schema; or None

    raises: InvalidRequest if a parameter cannot be filled from JSON
    """

    def __init__(self, function: Callable[..., Any], name: str, descriptions: dict[str, str]) -> None:
        self._name = name
        bound = function.keywords if isinstance(function, functools.partial) else {}
        try:
            found = inspect.signature(function).parameters
        except ValueError as error:  # some of Python's built-in functions and types
            raise InvalidRequest(
                f"tool {name}: {error}. Wrap it in a function with typed parameters."
            ) from None
        # Arguments bound by `functools.partial` are hidden from the model.
        self._parameters = {key: found[key] for key in found if key not in bound}
        types = self._types(function)
        self.context_key = self._take_context(types)
        # Before the fields are checked: a default of `Field(...)` is not a value of the parameter.
        self._take_fields(types)
        fields: list[Any] = []
        for key, parameter in self._parameters.items():
            self._check_fillable(key, parameter, types)
            absent = (
                ()
                if parameter.default is parameter.empty
                # By a factory: msgspec writes a plain default into the schema, and fails on one that JSON
                # does not have.
                else (msgspec.field(default_factory=lambda: _ABSENT),)
            )
            fields.append((key, readable(types[key]), *absent))
        fields.sort(key=len)  # a Struct wants required fields first
        try:
            # Unknown names are rejected: a misspelt option would otherwise be silently ignored.
            struct = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True)
            self._decoder = decoder(struct)
            self.schema = self._schema(struct, descriptions)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"tool {name}: {_type_error(error, fields)}") from error

    def read(self, arguments: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments from JSON; "" and `null` mean `{}`.

        raises: InvalidToolInput, with what the model needs to repair the call
        """
        try:
            values = self._decoded(object_text(arguments))
        except _UNREADABLE as error:
            raise InvalidToolInput(
                f"Invalid arguments for {self._name}: {_described(error)}. Expected: {self._shown(error)}"
            ) from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for key, parameter in self._parameters.items():
            value = getattr(values, key)
            if value is _ABSENT:
                value = parameter.default
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(value)
            else:
                kwargs[key] = value
        return args, kwargs

    def _decoded(self, text: str) -> Any:
        """The arguments. Null may mean an omitted argument (as in strict modes), and 3.0 means 3."""
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError:
            # Only after a failure: nearly all arguments are valid as sent.
            value = with_whole_numbers(without_empty_nulls(msgspec.json.decode(text), self.schema))
            return self._decoder.decode(msgspec.json.encode(value))

    def _take_context(self, types: dict[str, Any]) -> str | None:
        """Removes the parameter for the context from those that the model fills."""
        keys = [key for key in self._parameters if is_context(types.get(key))]
        if not keys:
            return None
        parameter = self._parameters.pop(keys[0])
        if len(keys) > 1 or parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidRequest(
                f"tool {self._name}: one ToolContext, in a parameter that can be given by its name"
            )
        return keys[0]

    def _take_fields(self, types: dict[str, Any]) -> None:
        """Splits pydantic's `Field(...)` defaults into the default and details of the type."""
        for key, parameter in self._parameters.items():
            field = parameter.default
            if is_field(field) and key in types:
                types[key] = Annotated[types[key], field]
                default = field_default(field, parameter.empty)
                self._parameters[key] = parameter.replace(default=default)

    def _types(self, function: Callable[..., Any]) -> dict[str, Any]:
        target: Any = function.func if isinstance(function, functools.partial) else function
        # As inspect.signature does, so that types and parameters belong to the same function.
        target = inspect.unwrap(target)
        if not inspect.isroutine(target):
            target = type(target).__call__
        try:
            return typing.get_type_hints(target, include_extras=True)
        except (NameError, TypeError) as error:
            raise InvalidRequest(
                f"tool {self._name}: its annotations cannot be read: {error}. "
                "Types of parameters must be importable from the function's module."
            ) from error

    def _check_fillable(self, key: str, parameter: inspect.Parameter, types: dict[str, Any]) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidRequest(
                f"tool {self._name}: {parameter} cannot be expressed in JSON. Use named parameters."
            )
        if key in ("self", "cls") and parameter.annotation is parameter.empty:
            raise InvalidRequest(
                f"tool {self._name}: it is a method without its object. "
                "Wrap the bound method: tool(obj.method)."
            )
        if key not in types:
            raise InvalidRequest(
                f"tool {self._name}: the parameter {key} has no type, so the model cannot know what to "
                f"pass. Annotate it, as in `{key}: str`, or `{key}: Any` for any JSON value."
            )

    def _schema(self, struct: type, descriptions: dict[str, str]) -> dict[str, Any]:
        (root,), components = schemas([struct])
        found = components.pop(root["$ref"].rpartition("/")[2])
        properties: dict[str, Any] = {}
        for key in self._parameters:  # in the function's order
            entry = dict(found["properties"][key])
            # The type's own description is more specific than the docstring's.
            text = entry.pop("description", None) or descriptions.get(key)
            default = self._default(key)
            if "$ref" in entry and (text or default is not _ABSENT):
                entry = {"anyOf": [entry]}  # strict modes refuse keywords beside a $ref
            if default is not _ABSENT:
                entry["default"] = default
            properties[key] = {"description": text, **entry} if text else entry
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if found.get("required"):
            schema["required"] = [key for key in self._parameters if key in found["required"]]
        # OpenAI's strict mode requires it, and the decoder refuses unknown names in every mode.
        schema["additionalProperties"] = False
        if components:
            schema["$defs"] = components
        return schema

    def _default(self, key: str) -> Any:
        default = self._parameters[key].default
        if default is inspect.Parameter.empty:
            return _ABSENT
        try:
            # The model sees the default; one without a JSON form is omitted from the schema, and still
            # applies.
            return msgspec.to_builtins(default, str_keys=True)
        except (TypeError, ValueError):
            return _ABSENT

    def _shown(self, error: Exception) -> str:
        """The expected arguments: the schema, or if that is long, the invalid argument and all names."""
        text = msgspec.json.encode(self.schema).decode()
        if len(text) <= _SCHEMA_EXCERPT_CHARS:
            return text
        required = self.schema.get("required", [])
        names = "an object with " + ", ".join(
            f"`{key}`" if key in required else f"`{key}` (optional)" for key in self._parameters
        )
        at = _AT.search(str(error))
        key = re.split(r"[.\[]", at["path"], maxsplit=1)[0] if at else ""
        if key not in self._parameters:
            return names
        wanted = msgspec.json.encode(resolved(self.schema["properties"][key], self.schema)).decode()
        return f"{names}; `{key}` is {wanted}" if len(wanted) <= _SCHEMA_EXCERPT_CHARS else names


def _type_error(error: Exception, fields: Iterable[Sequence[Any]]) -> str:
    """Why the types of parameters have no schema, with the first parameter that has none."""
    for key, annotation, *_ in fields:
        try:
            schemas([annotation])
        except (TypeError, ValueError) as own:
            found = unsupported_type(own)
            if found:
                return (
                    f"the parameter {key} cannot be filled from JSON, because of its type {found}. Use a "
                    "dataclass, a TypedDict, a msgspec Struct, a pydantic model, or types that JSON can "
                    "express."
                )
    return f"{error}. Use parameter types that JSON can express."


def _described(error: Exception) -> str:
    """Converts msgspec's message to `expected X at Y; got Z`."""
    if isinstance(error, RecursionError):
        return "they are nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        return f"they are not valid JSON ({error})"
    text = str(error)
    at = _AT.search(text)
    text = text[: at.start()] if at else text
    where = f" at `{at['path'] or 'the top'}`" if at else ""
    found = _EXPECTED.fullmatch(text)
    if found is None:
        return text[:1].lower() + text[1:] + where
    got = f"; got {found['got']}" if found["got"] else ""
    return f"expected {found['wanted']}{where}{got}"


class Described(msgspec.Struct, frozen=True):
    """The description of a function, and of each argument that has one."""

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


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function requires at least this many positional arguments.

    Only parameters without a default count: a parameter with a default is the function's own setting. Names
    do not matter. False if the signature cannot be read.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
    return len(required) >= count


def check_arguments(what: str, function: Callable[..., Any], *names: str) -> None:
    """Checks that a function can be called with these arguments, before a run begins.

    what:   the option, for the message
    names:  of the arguments, for the message
    raises: InvalidRequest; nothing if the signature cannot be read
    """
    try:
        # Bound, not called: any values do, since their number alone counts.
        inspect.signature(function).bind(*names)
    except ValueError:
        return
    except TypeError as error:
        raise InvalidRequest(
            f"{what} is called with ({', '.join(names)}); {function!r} is not: {error}"
        ) from None
