"""A function's signature as a JSON schema, and JSON arguments as the function's arguments."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from llmstream.errors import InvalidRequest, InvalidToolInput
from llmstream.json_numbers import with_whole_numbers
from llmstream.tools.context import is_context
from llmstream.tools.empty_nulls import resolved, without_empty_nulls

__all__ = ["Signature", "object_text"]

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_SCHEMA_EXCERPT_CHARS: Final = 600
_EXPECTED: Final = re.compile(r"Expected (?P<wanted>.+?)(?:, got (?P<got>.+))?")
_AT: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")

_NO_ARGUMENTS: Final = ("", "null")


def object_text(arguments: str) -> str:
    """The JSON text of a call's arguments; models say "no arguments" in several ways."""
    text = arguments.strip()
    return "{}" if text in _NO_ARGUMENTS else text


_ABSENT: Final = object()
"""Stands for an argument that the model left out: the function's own default applies."""


class Signature:
    """The parameters of a function, read once.

    schema:      JSON schema of the arguments' object; nested types stand in its `$defs`
    context_key: the parameter that takes the `ToolContext`, which no schema shows; or None

    raises: InvalidRequest where a parameter cannot be filled from JSON
    """

    def __init__(self, function: Callable[..., Any], name: str, descriptions: dict[str, str]) -> None:
        self._name = name
        bound = function.keywords if isinstance(function, functools.partial) else {}
        try:
            found = inspect.signature(function).parameters
        except ValueError as error:  # of some of Python's own functions and types
            raise InvalidRequest(
                f"tool {name}: {error}. Wrap it in a function with typed parameters."
            ) from None
        self._parameters = {key: found[key] for key in found if key not in bound}
        types = self._types(function)
        self.context_key = self._take_context(types)
        fields: list[Any] = []
        for key, parameter in self._parameters.items():
            self._refuse_unfillable(key, parameter, types)
            absent = (
                ()
                if parameter.default is parameter.empty
                else (msgspec.field(default_factory=lambda: _ABSENT),)
            )
            fields.append((key, types[key], *absent))
        fields.sort(key=len)  # a Struct wants required fields first
        try:
            struct = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True)
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(struct)
            self.schema = self._schema(struct, descriptions)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"tool {name}: {error}. Give the parameters types that JSON has.") from error

    def read(self, arguments: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments out of JSON; "" and `null` are the same as `{}`.

        raises: InvalidToolInput, in words that help the model to mend the call
        """
        try:
            values = self._decoded(object_text(arguments))
        except _UNREADABLE as error:
            raise InvalidToolInput(
                f"Invalid arguments for {self._name}: {_words(error)}. Expected: {self._shown(error)}"
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
        """The arguments; null may stand for one that is left out (strict modes), and 3.0 for 3."""
        try:
            return self._decoder.decode(text)
        except msgspec.ValidationError:
            value = with_whole_numbers(without_empty_nulls(msgspec.json.decode(text), self.schema))
            return self._decoder.decode(msgspec.json.encode(value))

    def _take_context(self, types: dict[str, Any]) -> str | None:
        """Takes the parameter for the context out of those that the model fills."""
        keys = [key for key in self._parameters if is_context(types.get(key))]
        if not keys:
            return None
        parameter = self._parameters.pop(keys[0])
        if len(keys) > 1 or parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidRequest(
                f"tool {self._name}: one ToolContext, in a parameter that can be given by its name"
            )
        return keys[0]

    def _types(self, function: Callable[..., Any]) -> dict[str, Any]:
        target: Any = function.func if isinstance(function, functools.partial) else function
        target = inspect.unwrap(target)
        if not inspect.isroutine(target):
            target = type(target).__call__
        try:
            found = typing.get_type_hints(target, include_extras=True)
        except (NameError, TypeError) as error:
            raise InvalidRequest(
                f"tool {self._name}: its annotations cannot be read: {error}. "
                "Types of parameters must be importable from the function's module."
            ) from error
        return {key: _described(annotation) for key, annotation in found.items()}

    def _refuse_unfillable(self, key: str, parameter: inspect.Parameter, types: dict[str, Any]) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidRequest(f"tool {self._name}: {parameter} has no JSON form. Name the parameters.")
        if key in ("self", "cls") and parameter.annotation is parameter.empty:
            raise InvalidRequest(
                f"tool {self._name}: it is a method without its object. Wrap the bound one: tool(obj.method)."
            )
        if key not in types:
            raise InvalidRequest(
                f"tool {self._name}: the parameter {key} has no type, so the model could not know what to "
                f"give. Annotate it, as in `{key}: str`, or `{key}: Any` for any JSON value."
            )

    def _schema(self, struct: type, descriptions: dict[str, str]) -> dict[str, Any]:
        _, components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
        components = _with_enum_types(components)
        found = components.pop("Arguments")
        properties: dict[str, Any] = {}
        for key in self._parameters:  # in the function's order
            entry = dict(found["properties"][key])
            words = entry.pop("description", None) or descriptions.get(key)
            default = self._default(key)
            if "$ref" in entry and (words or default is not _ABSENT):
                entry = {"anyOf": [entry]}  # strict modes refuse words beside a $ref
            if default is not _ABSENT:
                entry["default"] = default
            properties[key] = {"description": words, **entry} if words else entry
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if found.get("required"):
            schema["required"] = [key for key in self._parameters if key in found["required"]]
        schema["additionalProperties"] = False
        if components:
            schema["$defs"] = components
        return schema

    def _default(self, key: str) -> Any:
        default = self._parameters[key].default
        if default is inspect.Parameter.empty:
            return _ABSENT
        try:
            return msgspec.to_builtins(default, str_keys=True)
        except (TypeError, ValueError):
            return _ABSENT

    def _shown(self, error: Exception) -> str:
        """What is expected: all of it, or where that is long, the argument at fault beside the names."""
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


def _described(annotation: Any) -> Any:
    """The annotation with a plain text in `Annotated[str, "the city"]` as its description."""
    if typing.get_origin(annotation) is not Annotated:
        return annotation
    extras = [msgspec.Meta(description=e) if isinstance(e, str) else e for e in annotation.__metadata__]
    return Annotated[(annotation.__origin__, *extras)]


def _with_enum_types(schema: Any) -> Any:
    """The schema with a type beside each enum of one type: some vendors refuse one without."""
    if isinstance(schema, list):
        return [_with_enum_types(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    values = schema.get("enum")
    kinds = {type(value) for value in values} if isinstance(values, list) else set()
    if "type" not in schema and kinds in ({str}, {int}):
        schema = {"type": "string" if kinds == {str} else "integer", **schema}
    return {
        key: value if key in ("enum", "default") else _with_enum_types(value) for key, value in schema.items()
    }


def _words(error: Exception) -> str:
    """`expected X at Y; got Z` out of msgspec's sentence."""
    if isinstance(error, RecursionError):
        return "they are nested too deeply"
    if not isinstance(error, msgspec.ValidationError):
        return f"they are no valid JSON ({error})"
    text = str(error)
    at = _AT.search(text)
    text = text[: at.start()] if at else text
    where = f" at `{at['path'] or 'the top'}`" if at else ""
    found = _EXPECTED.fullmatch(text)
    if found is None:
        return text[:1].lower() + text[1:] + where
    got = f"; got {found['got']}" if found["got"] else ""
    return f"expected {found['wanted']}{where}{got}"
