"""JSON schemas as OpenAI's strict mode takes them.

Every object names all its properties as required and closes itself; what was optional may be
null instead. Schemas that fit already come out as they were.
source: "Structured outputs", supported schemas, in OpenAI's documents
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["openai_strict_schema", "strict_problem"]

_SUBSCHEMAS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SUBSCHEMAS: Final = ("$defs", "definitions")


def openai_strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in the strict subset; None where it says what the subset cannot (open maps)."""
    try:
        strict: dict[str, Any] = _strict(schema)
    except _NotStrictError:
        return None
    return strict


def strict_problem(schema: object, path: tuple[str, ...] = ()) -> str | None:
    """What the vendor says of a schema that is not strict; None where it is."""
    if not isinstance(schema, dict):
        return None
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        if schema.get("additionalProperties") is not False:
            return f"In context={path}, 'additionalProperties' is required to be supplied and to be false."
        names = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        missing = [n for n in names if not isinstance(required, list) or n not in required]
        if missing:
            return (
                f"In context={path}, 'required' is required to be supplied and to be an array including "
                f"every key in properties. Missing '{missing[0]}'."
            )
        for name, inner in names.items():
            found = strict_problem(inner, (*path, "properties", name))
            if found:
                return found
    return strict_problem(schema.get("items"), (*path, "items"))


class _NotStrictError(Exception):
    pass


def _strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for name in _SUBSCHEMAS:
        if isinstance(out.get(name), list):
            out[name] = [_strict(inner) for inner in out[name]]
    for name in _NAMED_SUBSCHEMAS:
        if isinstance(out.get(name), dict):
            out[name] = {key: _strict(inner) for key, inner in out[name].items()}
    if "items" in out:
        out["items"] = _strict(out["items"])
    properties = out.get("properties")
    if out.get("type") == "object" or isinstance(properties, dict):
        _close(out, properties if isinstance(properties, dict) else {})
    return out


def _close(out: dict[str, Any], properties: dict[str, Any]) -> None:
    if out.get("additionalProperties") not in (None, False, True):
        raise _NotStrictError  # a map from any name to a schema
    if out.get("additionalProperties") is True and not properties:
        raise _NotStrictError
    required = out.get("required")
    wanted = required if isinstance(required, list) else []
    out["properties"] = {
        name: _strict(inner) if name in wanted else _nullable(_strict(inner))
        for name, inner in properties.items()
    }
    if [*wanted] != [*properties]:
        out["required"] = wanted if set(wanted) == set(properties) else [*properties]
    else:
        out.setdefault("required", [])
    out["additionalProperties"] = False


def _nullable(schema: Any) -> Any:
    """The same schema, or null."""
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return schema
    if isinstance(kind, str) and "enum" not in schema and "const" not in schema:
        return {**schema, "type": [kind, "null"]}
    if isinstance(schema.get("anyOf"), list):
        if {"type": "null"} in schema["anyOf"]:
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}
