"""The JSON schema of a type in the form that vendors accept: an object at the root, plain keywords."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final, cast

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.json_types import is_model, schemas

__all__ = ["fitted", "output_schema", "wrapped"]

# Refused by strict modes; a default that is left out applies all the same when the answer is read.
_DROPPED: Final = frozenset({"default", "discriminator"})

_NOT_SCHEMAS: Final = frozenset({"enum", "const", "required", "examples"})
_NAMED: Final = frozenset({"properties", "$defs"})
_MAX_NAME: Final = 64


def output_schema(output_type: Any) -> dict[str, Any]:
    """Returns the schema of a type; nested types are in `$defs`, and a reference at the root is resolved.

    raises: InvalidRequest if the type has no JSON form
    """
    try:
        (schema,), components = schemas([output_type])
    except (TypeError, NameError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"output: no JSON schema can be made of {output_type!r}. {_remedy(output_type, error)}"
        ) from None
    found, defs = _plain(schema), {name: _plain(each) for name, each in components.items()}
    root = found.get("$ref")
    if isinstance(root, str):
        name = root.rpartition("/")[2]
        found = {**defs[name]}
        if not _refers(defs, root):
            del defs[name]
    if defs:
        found["$defs"] = defs
    return cast(dict[str, Any], found)


def _remedy(output_type: Any, error: Exception) -> str:
    kind = type(output_type)
    if _is_data(kind):
        return f"It is a value; write output={kind.__name__}, its type."
    if "schema_hook" in str(error):  # msgspec's advice for a class that it does not know, to its own callers
        return "Use a dataclass, a TypedDict, a msgspec Struct, a pydantic model, or types made of these."
    return str(error)


def _is_data(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or is_model(kind)


def wrapped(schema: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Returns the schema with an object at its root, and the name of the property with the value."""
    if schema.get("type") == "object":
        return schema, None
    name = "items" if schema.get("type") == "array" else "value"
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {"type": "object", "properties": {name: inner}, "required": [name]}
    outer["additionalProperties"] = False
    if "$defs" in schema:
        outer["$defs"] = schema["$defs"]
    return outer, name


def fitted(name: str) -> str:
    """Returns a name that vendors accept for a schema or a tool."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_MAX_NAME] or "response"


def _refers(schema: Any, ref: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == ref or any(_refers(inner, ref) for inner in schema.values())
    return isinstance(schema, list) and any(_refers(inner, ref) for inner in schema)


def _plain(schema: Any) -> Any:
    """Removes keywords that strict modes refuse; objects with named properties are closed."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            out[key] = {name: _plain(inner) for name, inner in value.items()}
        elif key not in _DROPPED:
            out[key] = value if key in _NOT_SCHEMAS else _plain(value)
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out
