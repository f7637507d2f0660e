"""JSON schemas in the subsets that vendors accept: without references, OpenAI's strict, Claude's strict.

References: GLM-5.3 writes a nested argument as a string where its schema is a `$ref` into `$defs`
(pydantic/pydantic-ai#10243, seen 2026-11, at Z.ai and at Mistral).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["claude_strict_schema", "inlined", "openai_strict_schema", "strict_problem"]


# Nested definitions can grow exponentially; a schema past this cap is not changed.
_MAX_NODES: Final = 20_000

_NAMED: Final = ("$defs", "definitions")


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Replaces each local reference by the schema it names.

    A schema that refers to itself, or would grow too large, is returned unchanged.
    """
    if not any(name in schema for name in _NAMED):
        return schema
    copier = _Copier(schema)
    try:
        out = copier.copy({key: value for key, value in schema.items() if key not in _NAMED}, ())
    except _NotPossible:
        return schema
    assert isinstance(out, dict)
    return out


class _NotPossible(Exception):
    """The schema is recursive, or too large without its references."""


class _Copier:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def copy(self, value: Any, within: tuple[str, ...]) -> Any:
        """Copies a value without references. `within`: the references on the way to it."""
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise _NotPossible
        if isinstance(value, list):
            return [self.copy(item, within) for item in value]
        if not isinstance(value, dict):
            return value
        ref = value.get("$ref")
        if not isinstance(ref, str):
            return {key: self.copy(inner, within) for key, inner in value.items()}
        found = self._named(ref)
        if ref in within or found is None:
            raise _NotPossible
        beside = {key: inner for key, inner in value.items() if key != "$ref"}
        out = self.copy({**found, **beside}, (*within, ref))
        assert isinstance(out, dict)
        return out

    def _named(self, ref: str) -> dict[str, Any] | None:
        found: Any = self._root
        for step in ref.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None


# OpenAI's strict mode.
#
# Every object is closed and requires all its properties; an optional one may be null instead. A schema
# that conforms is not changed.
# source: "Structured outputs", supported schemas, in OpenAI's documents

_SUBSCHEMAS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SUBSCHEMAS: Final = ("$defs", "definitions")


def openai_strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Converts a schema to the strict subset; None if it cannot be expressed there (open maps)."""
    try:
        strict: dict[str, Any] = _strict(schema)
    except _NotStrictError:
        return None
    return strict


def strict_problem(schema: object, path: tuple[str, ...] = ()) -> str | None:
    """Returns the vendor's error message for a schema that is not strict; None if it is strict."""
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
        # A map from any name to a schema.
        raise _NotStrictError
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


# Claude's structured outputs, on every provider.
#
# Objects are closed, `oneOf` becomes `anyOf`, and unsupported constraints move into the description,
# where the model still reads them.
# source: "Structured outputs", JSON schema limitations, in Anthropic's documents

_UNKNOWN: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "patternProperties",
        "propertyNames",
    }
)
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_SCHEMAS: Final = frozenset({"items", "additionalItems", "not", "if", "then", "else"})
_LISTS: Final = frozenset({"allOf", "prefixItems"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})


def claude_strict_schema(schema: Any) -> Any:
    """Converts a copy of a schema to the vendor's subset. It is idempotent."""
    if isinstance(schema, list):
        return [claude_strict_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("anyOf", "oneOf") and isinstance(value, list):
            out["anyOf"] = [*out.get("anyOf", []), *claude_strict_schema(value)]
        elif key in _UNKNOWN or (key == "format" and value not in _FORMATS) or _is_long(key, value):
            moved[key] = value
        elif key in _MAPS and isinstance(value, dict):
            out[key] = {name: claude_strict_schema(item) for name, item in value.items()}
        elif key in _SCHEMAS or key in _LISTS:
            out[key] = claude_strict_schema(value)
        else:
            out[key] = value
    if "properties" in out or _is_object(out.get("type")):
        out["additionalProperties"] = False
    if moved:
        words = msgspec.json.encode(moved).decode()
        out["description"] = f"{out['description']} {words}" if out.get("description") else words
    return out


def _is_long(key: str, value: Any) -> bool:
    return key == "minItems" and value not in (0, 1)


def _is_object(kind: Any) -> bool:
    return kind == "object" or (isinstance(kind, list) and "object" in kind)
