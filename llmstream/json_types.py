"""Types and JSON: the schema of a type, values read from JSON, values written as JSON.

msgspec knows scalars, containers, dataclasses, TypedDicts, attrs classes and its own Structs.
Pydantic models work at any depth beside them: a class is one if it has `model_json_schema`,
`model_validate` and `model_dump`. Pydantic itself is never imported.
"""

from __future__ import annotations

import re
import types
import typing
import weakref
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import inspect as shapes

from llmstream.first_use import make_decoder, prepared

__all__ = [
    "Choice",
    "convert",
    "decoder",
    "encode",
    "field_default",
    "is_field",
    "is_model",
    "readable",
    "resolved",
    "schemas",
    "unsupported_type",
    "with_whole_numbers",
    "without_empty_nulls",
]

_MODEL_METHODS: Final = ("model_json_schema", "model_validate", "model_dump")
_CONSTRAINTS: Final = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")

# How many of a model's errors are listed: enough to repair an answer, not a page of them.
_MAX_ERRORS: Final = 8

_REF: Final = "#/$defs/"

# As msgspec 0.20 reports a class that it does not know, or a value in place of a type.
_UNSUPPORTED: Final = re.compile(r"[Tt]ype '?(?P<type>(?!unions ).+?)'? is not supported")

# Marks the name in a final reference; class names cannot contain this character.
_FINAL: Final = "\0"

# Keywords of a schema that hold values and no schemas.
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "required"})

# Keywords that hold schemas by names, which may be those of keywords.
_NAMED: Final = frozenset({"properties", "$defs", "patternProperties"})


def is_model(kind: Any) -> bool:
    """Whether a type is a pydantic model, or has the methods of one."""
    return isinstance(kind, type) and all(callable(getattr(kind, name, None)) for name in _MODEL_METHODS)


def is_field(value: Any) -> bool:
    """Whether a value is the result of pydantic's `Field(...)`."""
    return all(hasattr(value, name) for name in ("is_required", "get_default", "metadata", "description"))


def field_default(field: Any, absent: Any) -> Any:
    """Returns the default of a pydantic `Field(...)`, or `absent`."""
    return absent if field.is_required() else field.get_default(call_default_factory=True)


class _OfAnything(type):
    """Metaclass of a type whose hook returns values of other types, which msgspec would refuse."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


class Choice(metaclass=_OfAnything):
    """Represents a union with models, which msgspec does not support: the first option that fits.

    options: the types, readable
    """

    options: ClassVar[tuple[Any, ...]] = ()

    @classmethod
    def read(cls, raw: Any) -> Any:
        """Converts a parsed JSON value.

        raises: ValueError with the errors of the closest option
        """
        errors: list[tuple[bool, int, str]] = []
        for option in cls.options:
            try:
                return _validated(option, raw) if is_model(option) else convert(raw, option)
            except ValueError as error:
                # If the tag of an option does not fit, its other errors mean nothing.
                text = str(error)
                errors.append(("Input should be '" in text, text.count("; "), text))
        raise ValueError(min(errors)[2])


def readable(annotation: Any) -> Any:
    """Converts an annotation to one that msgspec supports.

    A union of models becomes a `Choice`; in `Annotated`, pydantic's `Field` and a plain text, which
    describes, become `msgspec.Meta`.
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner, *metadata = args
        found = [_as_meta(each) for each in metadata]
        return Annotated[(readable(inner), *found)]
    if not args or origin is typing.Literal:
        return annotation
    inner_types = tuple([readable(arg) for arg in args])
    if origin in (typing.Union, types.UnionType):
        return _union(inner_types)
    if all(new is old for new, old in zip(inner_types, args, strict=True)):
        return annotation
    rebuild = getattr(annotation, "copy_with", None) or annotation.__origin__.__class_getitem__
    return rebuild(inner_types)


def decoder(annotation: Any) -> msgspec.json.Decoder[Any]:
    """Creates a decoder of JSON text to values of a type."""
    return make_decoder(readable(annotation), dec_hook=_read)


def convert(raw: Any, annotation: Any) -> Any:
    """Converts a parsed JSON value to a type.

    raises: msgspec.ValidationError, with the messages of pydantic where a model does not fit
    """
    return msgspec.convert(raw, prepared(readable(annotation)), str_keys=True, dec_hook=_read)


def _write(value: Any) -> Any:
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


encode: Final = msgspec.json.Encoder(enc_hook=_write).encode
"""The JSON of a value; raises TypeError or ValueError where it has none."""


def schemas(annotations: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Returns the JSON schema of each type, and the components that they refer to as `#/$defs/name`.

    raises: TypeError, ValueError, NameError or RecursionError if a type has none
    """
    components = _Components()
    found = components.schemas([readable(each) for each in annotations])
    return [_plain(each) for each in found], {name: _plain(each) for name, each in components.found.items()}


def unsupported_type(error: Exception) -> str:
    """The type for which an error of `schemas` reports that there is no schema; "" for other errors.

    The message of msgspec is for its own callers: it advises a `schema_hook`.
    """
    found = _UNSUPPORTED.fullmatch(str(error).rpartition("\n")[2])
    return found["type"] if found else ""


class _Components:
    """Component schemas of msgspec and of models under names of their own.

    Both call a component by its class, so names may collide; the later one gets a number.
    """

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._given: dict[str, Any] = {}  # originals, before references in them were renamed

    def schemas(self, annotations: list[Any]) -> Any:
        found, components = msgspec.json.schema_components(
            annotations, schema_hook=self._hook, ref_template=_REF + "{name}"
        )
        _describe_fields(shapes.multi_type_info(annotations), components)
        return self._adopt(list(found), components)

    def _hook(self, kind: Any) -> Any:
        """Returns the schema of a type that msgspec does not support, for a schema that it creates.

        Its references are final, so they are marked, and are not renamed with the others.
        """
        if isinstance(kind, type) and issubclass(kind, Choice):
            return {"anyOf": _with_refs(self.schemas(list(kind.options)), lambda name: _FINAL + name)}
        if not is_model(kind):
            # The error of msgspec names the type.
            raise NotImplementedError
        schema = dict(_model_schema(kind))
        components = schema.pop("$defs", {})
        # A recursive model is among its components already.
        if "$ref" not in schema:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "_", kind.__name__).strip("_")
            components, schema = {**components, name: schema}, {"$ref": _REF + name}
        return _with_refs(self._adopt(schema, components), lambda name: _FINAL + name)

    def _adopt(self, schema: Any, components: dict[str, Any]) -> Any:
        """Adds components; returns the schema with references to their names here."""
        names = {name: self._named(name, each) for name, each in components.items()}

        def final(name: str) -> str:
            return name[len(_FINAL) :] if name.startswith(_FINAL) else names.get(name, name)

        for name, each in components.items():
            self.found[names[name]] = _with_refs(each, final)
        return _with_refs(schema, final)

    def _named(self, name: str, schema: Any) -> str:
        free, number = name, 1
        # A repeated component is stored once.
        while self._given.setdefault(free, schema) != schema:
            number += 1
            free = f"{name}_{number}"
        return free


# Weak keys: programs create models at run time.
_model_schemas: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def _model_schema(kind: Any) -> dict[str, Any]:
    """Returns the schema of a model; cached, because pydantic takes a millisecond or more for it."""
    found = _model_schemas.get(kind)
    if found is None:
        found = _model_schemas[kind] = _tidy(kind.model_json_schema())
    return found


def _describe_fields(found: Iterable[Any], components: dict[str, dict[str, Any]]) -> None:
    """Adds the descriptions that pydantic's `Field` gives fields of dataclasses, TypedDicts and Structs.

    msgspec reads their annotations itself, and only its own `Meta` in them.
    """
    # A list and not recursion: types refer to themselves.
    todo, seen = list(found), set[Any]()
    while todo:
        shape = todo.pop()
        for name in shape.__struct_fields__:
            inner = getattr(shape, name)
            todo += [each for each in (inner if isinstance(inner, tuple) else (inner,)) if _is_shape(each)]
        cls = getattr(shape, "cls", None)
        if not hasattr(shape, "fields") or cls in seen:
            continue
        seen.add(cls)
        todo += [field.type for field in shape.fields]
        properties = components.get(getattr(cls, "__name__", ""), {}).get("properties", {})
        hints = typing.get_type_hints(typing.get_origin(cls) or cls, include_extras=True)
        for field in shape.fields:
            metadata = getattr(hints.get(field.name), "__metadata__", ())
            texts = [each.description for each in metadata if is_field(each) and each.description]
            if texts and field.encode_name in properties:
                properties[field.encode_name].setdefault("description", texts[0])


def _is_shape(value: Any) -> bool:
    return isinstance(value, shapes.Type | shapes.Metadata)


def _with_refs(schema: Any, renamed: Callable[[str], str]) -> Any:
    """Replaces the names in the references of a schema."""
    if isinstance(schema, list):
        return [_with_refs(each, renamed) for each in schema]
    if isinstance(schema, str):
        return _REF + renamed(schema[len(_REF) :]) if schema.startswith(_REF) else schema
    return _mapped(schema, lambda inner: _with_refs(inner, renamed))


def _mapped(schema: Any, function: Callable[[Any], Any]) -> Any:
    """Applies a function to each schema that is directly in a schema."""
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, each in schema.items():
        if key in _NAMED and isinstance(each, dict):
            out[key] = {name: function(inner) for name, inner in each.items()}
        else:
            out[key] = each if key in _VALUES else function(each)
    return out


def _tidy(schema: Any) -> Any:
    """Converts a schema of pydantic to msgspec's form: `anyOf` for unions, no titles that repeat a name."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # Strict modes refuse it, and the tags are in the options.
    out = _mapped({key: each for key, each in schema.items() if key != "discriminator"}, _tidy)
    if "properties" in out:
        out["properties"] = {name: _untitled(name, each) for name, each in out["properties"].items()}
    if "oneOf" in out:
        out["anyOf"] = out.pop("oneOf")
    return out


def _untitled(name: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("title") == name.title().replace("_", " ").strip():
        return {key: each for key, each in schema.items() if key != "title"}
    return schema


def _plain(schema: Any) -> Any:
    """Converts a schema to the form that all vendors accept.

    An enum of one type has that type beside it, which some require. A `$ref` has nothing beside it, which
    strict modes refuse. A union in a union becomes one.
    """
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    values = schema.get("enum")
    kinds = {type(value) for value in values} if isinstance(values, list) else set()
    if "type" not in schema and kinds in ({str}, {int}):
        schema = {"type": "string" if kinds == {str} else "integer", **schema}
    if "$ref" in schema and len(schema) > 1 and isinstance(schema["$ref"], str):
        schema = {**schema, "anyOf": [{"$ref": schema["$ref"]}]}
        del schema["$ref"]
    if "anyOf" in schema:
        options = [each["anyOf"] if each.keys() == {"anyOf"} else [each] for each in schema["anyOf"]]
        schema = {**schema, "anyOf": [each for option in options for each in option]}
    return _mapped(schema, _plain)


def _read(kind: Any, raw: Any) -> Any:
    """Reads a value of a type that msgspec does not support itself."""
    if issubclass(kind, Choice):
        return kind.read(raw)
    # msgspec refuses any other type.
    return _validated(kind, raw) if is_model(kind) else raw


def _validated(kind: Any, raw: Any) -> Any:
    """raises: ValueError with pydantic's messages, whatever a validator raises"""
    try:
        # Validated as JSON, where strict mode accepts a date as text.
        read_json = getattr(kind, "model_validate_json", None)
        return kind.model_validate(raw) if read_json is None else read_json(msgspec.json.encode(raw))
    except Exception as error:
        raise ValueError(_explained(error)) from error


def _explained(error: Exception) -> str:
    """Returns pydantic's messages, each with its place before it."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return f"{type(error).__name__}: {error}"
    found: Any = listed()
    texts = []
    for each in found[:_MAX_ERRORS]:
        place = ".".join(map(str, each["loc"]))
        texts.append(f"`{place}`: {each['msg']}" if place else str(each["msg"]))
    if len(found) > _MAX_ERRORS:
        texts.append(f"and {len(found) - _MAX_ERRORS} more errors")
    return "; ".join(texts)


def _union(options: tuple[Any, ...]) -> Any:
    """Returns a union; a `Choice` if it has models and anything but None beside them."""
    some = tuple([option for option in options if option is not type(None)])
    if len(some) > 1 and any(is_model(_bare(option)) for option in some):
        choice = _OfAnything("Choice", (Choice,), {"options": tuple(map(_bare, some))})
        return choice if len(some) == len(options) else choice | None
    return typing.Union[options]  # noqa: UP007  # of a tuple


def _bare(annotation: Any) -> Any:
    return typing.get_args(annotation)[0] if typing.get_origin(annotation) is Annotated else annotation


def _as_meta(field: Any) -> Any:
    """Converts pydantic's `Field(...)`, or a plain text, to msgspec's `Meta`; anything else is unchanged."""
    if isinstance(field, str):
        return msgspec.Meta(description=field)
    if not is_field(field):
        return field
    found = {
        name: value
        for each in field.metadata
        for name in _CONSTRAINTS
        if (value := getattr(each, name, None)) is not None
    }
    # It may also be a function that changes the schema.
    extra = field.json_schema_extra
    return msgspec.Meta(
        title=field.title,
        description=field.description,
        examples=field.examples,
        extra_json_schema=extra if isinstance(extra, dict) else None,
        **found,
    )


def resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema, or the component that it refers to."""
    if not isinstance(schema, dict):
        return {}
    ref = schema.get("$ref")
    return root.get("$defs", {}).get(ref.rpartition("/")[2], {}) if isinstance(ref, str) else schema


def without_empty_nulls(value: Any, schema: dict[str, Any]) -> Any:
    """Removes the nulls that mean "absent" from a value.

    Strict modes have no optional properties, only nullable ones. A null is removed if the property may be
    missing and cannot be null.
    """
    return _without(value, schema, schema)


def _without(value: Any, schema: Any, root: dict[str, Any]) -> Any:
    schema = resolved(schema, root)
    if isinstance(value, list):
        items = schema.get("items")
        return [_without(item, items, root) for item in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    schema = _variant(value, schema, root)
    properties, required = schema.get("properties", {}), schema.get("required", ())
    others = schema.get("additionalProperties")
    return {
        key: _without(inner, properties.get(key, others), root)
        for key, inner in value.items()
        if inner is not None or key in required or key not in properties or _nullable(properties[key], root)
    }


def _variant(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema that has all names of the value and agrees with its tag."""
    for option in schema.get("anyOf", ()):
        found = resolved(option, root)
        properties = found.get("properties", {})
        tags = ((value.get(key), _constants(inner)) for key, inner in properties.items())
        fits = all(given is None or constants is None or given in constants for given, constants in tags)
        if properties and value.keys() <= properties.keys() and fits:
            return found
    return schema


def _constants(schema: dict[str, Any]) -> list[Any] | None:
    """Returns the values that a property may have, if they are listed; pydantic lists one as `const`."""
    found: list[Any] | None = schema.get("enum")
    return [schema["const"]] if found is None and "const" in schema else found


def _nullable(schema: Any, root: dict[str, Any]) -> bool:
    schema = resolved(schema, root)
    if "anyOf" in schema:
        return any(_nullable(option, root) for option in schema["anyOf"])
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def with_whole_numbers(value: Any) -> Any:
    """Converts 3.0 to 3: it is an integer in JSON, and some vendors send every number like this."""
    if isinstance(value, list):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: with_whole_numbers(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
