"""JSON schemas in the OpenAPI subset that the older fields take, and back.

`parameters` and `responseSchema` know no `$ref`, no `additionalProperties`, no list of types and
no enum of anything but strings. What has no place there moves into the description, where the
model still reads it.
source: Schema in the references of the Gemini API and of Vertex AI
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["json_schema", "openapi_schema"]

_KNOWN: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties",
        "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf",
        "propertyOrdering", "default", "items", "minimum", "maximum",
    }
)  # fmt: skip
_SILENT: Final = frozenset({"$schema", "$defs", "definitions", "$id", "$comment", "additionalProperties"})
_FORMATS: Final = {
    "string": frozenset({"date-time", "enum"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_MAX_DEPTH: Final = 12  # to which a schema that holds itself is written out


def openapi_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A copy in the subset; None for an object without properties, which the API refuses."""
    root = _converted(schema, schema, 0)
    if root.get("type") == "object" and not root.get("properties"):
        return None
    return root


def json_schema(schema: Any) -> Any:
    """The reverse: a schema of the subset as JSON schema."""
    if isinstance(schema, list):
        return [json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = value.lower()
        elif key == "properties" and isinstance(value, dict):
            out[key] = {name: json_schema(item) for name, item in value.items()}
        elif key in ("items", "anyOf", "additionalProperties"):
            out[key] = json_schema(value)
        elif key != "nullable":
            out[key] = value
    if schema.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out


def _converted(schema: Any, root: dict[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    schema = _merged(_resolved(schema, root), root)
    out: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            out[key] = {name: _converted(item, root, depth + 1) for name, item in value.items()}
        elif key == "items":
            out[key] = _converted(value, root, depth + 1)
        elif key in ("anyOf", "oneOf") and isinstance(value, list):
            out["anyOf"] = [_converted(item, root, depth + 1) for item in value]
        elif key == "const":
            out["enum"] = [value]
        elif key in _KNOWN:
            out[key] = value
        elif key not in _SILENT:
            moved[key] = value
    _one_type(out)
    _without_null(out)
    _string_enum(out, moved)
    kind = out.get("type")
    if "format" in out and out["format"] not in _FORMATS.get(str(kind), ()):
        moved["format"] = out.pop("format")
    if kind == "array":
        out.setdefault("items", {"type": "string"})
    if moved:
        words = msgspec.json.encode(moved).decode()
        out["description"] = f"{out['description']} {words}" if out.get("description") else words
    return out


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema that a local `$ref` names, with what stands beside it."""
    for _ in range(_MAX_DEPTH):
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        found: Any = root
        for step in ref.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) and name else found
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside} if isinstance(found, dict) else beside
    return {key: value for key, value in schema.items() if key != "$ref"}


def _merged(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """`allOf` has no place: its parts become one."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    out = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        for key, value in (_resolved(part, root) if isinstance(part, dict) else {}).items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {**out.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                out[key] = list(dict.fromkeys([*out.get(key, []), *value]))
            else:
                out.setdefault(key, value)
    return out


def _one_type(out: dict[str, Any]) -> None:
    """A list of types becomes `anyOf`, with "null" as `nullable`."""
    kinds = out.get("type")
    if not isinstance(kinds, list):
        return
    if "null" in kinds:
        out["nullable"] = True
    rest = [kind for kind in kinds if kind != "null"]
    del out["type"]
    if len(rest) == 1:
        out["type"] = rest[0]
    elif rest:
        inner = {
            key: out.pop(key)
            for key in list(out)
            if key not in ("description", "title", "nullable", "default")
        }
        out["anyOf"] = [{"type": kind, **_fitting(kind, inner)} for kind in rest]


def _fitting(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    owners = {
        "items": "array",
        "minItems": "array",
        "maxItems": "array",
        "properties": "object",
        "required": "object",
    }
    return {key: value for key, value in fields.items() if owners.get(key, kind) == kind}


def _without_null(out: dict[str, Any]) -> None:
    """An alternative that is null becomes `nullable`; one that is left stands alone."""
    choices = out.get("anyOf")
    if not isinstance(choices, list):
        return
    rest = [choice for choice in choices if choice.get("type") != "null"]
    if len(rest) < len(choices):
        out["nullable"] = True
    if len(rest) == 1:
        del out["anyOf"]
        for key, value in rest[0].items():
            out.setdefault(key, value)
    else:
        out["anyOf"] = rest


def _string_enum(out: dict[str, Any], moved: dict[str, Any]) -> None:
    values = out.get("enum")
    if not isinstance(values, list):
        return
    if None in values:
        out["nullable"] = True
        values = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in values):
        out["enum"] = values
        out.setdefault("type", "string")
    else:
        del out["enum"]
        moved["enum"] = values
        kinds = {bool: "boolean", int: "integer", float: "number"}
        out.setdefault("type", kinds.get(type(values[0]), "string"))
