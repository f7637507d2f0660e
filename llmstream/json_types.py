"""Types and JSON: what a schema has to look like, and the values that fit it."""

from __future__ import annotations

from typing import Any

__all__ = ["resolved", "with_enum_types", "without_empty_nulls"]


def with_enum_types(schema: Any) -> Any:
    """The schema with a type beside each enum of one type: some vendors refuse one without."""
    if isinstance(schema, list):
        return [with_enum_types(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    values = schema.get("enum")
    kinds = {type(value) for value in values} if isinstance(values, list) else set()
    if "type" not in schema and kinds in ({str}, {int}):
        schema = {"type": "string" if kinds == {str} else "integer", **schema}
    return {
        key: value if key in ("enum", "default") else with_enum_types(value) for key, value in schema.items()
    }


def without_empty_nulls(value: Any, schema: dict[str, Any]) -> Any:
    """The value without the nulls that stand for "not there".

    Strict modes know no optional property, only one that may be null. A null goes where the
    property may be missing and cannot be null.
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
    """Of several schemas the one that knows all the value's names and agrees with its tag."""
    for option in schema.get("anyOf", ()):
        found = resolved(option, root)
        properties = found.get("properties", {})
        tags = ((value.get(key), inner["enum"]) for key, inner in properties.items() if "enum" in inner)
        if properties and value.keys() <= properties.keys() and all(v is None or v in e for v, e in tags):
            return found
    return schema


def resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """What a schema says, or what it refers to."""
    if not isinstance(schema, dict):
        return {}
    ref = schema.get("$ref")
    return root.get("$defs", {}).get(ref.rpartition("/")[2], {}) if isinstance(ref, str) else schema


def _nullable(schema: Any, root: dict[str, Any]) -> bool:
    schema = resolved(schema, root)
    if "anyOf" in schema:
        return any(_nullable(option, root) for option in schema["anyOf"])
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)
