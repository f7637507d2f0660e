"""JSON schemas as Cohere's structured outputs take them.

`oneOf` becomes `anyOf`, `allOf` one schema; limits that are not checked there move into the description,
where the model still reads them. An object needs a required property: one that has none requires its
first, so that what is answered fits the original as well.
source: "Structured Outputs", supported and unsupported schema features, in Cohere's documents
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

__all__ = ["cohere_schema"]

_UNKNOWN: Final = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
        "minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "minProperties",
        "maxProperties", "patternProperties", "propertyNames", "prefixItems", "not", "if", "then", "else",
        "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip
_FORMATS: Final = frozenset({"date-time", "uuid", "date", "time"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_LOOKAROUND: Final = re.compile(r"\(\?[=!<]")


def cohere_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A copy in the subset, and whether something of it went into words."""
    moved: list[dict[str, Any]] = []
    return _narrowed(schema, moved), bool(moved)


def _narrowed(schema: Any, moved: list[dict[str, Any]]) -> Any:
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for key, value in _merged(schema, words).items():
        if key in ("anyOf", "oneOf") and isinstance(value, list):
            out["anyOf"] = [*out.get("anyOf", []), *(_narrowed(inner, moved) for inner in value)]
        elif key in _MAPS and isinstance(value, dict):
            out[key] = {name: _narrowed(inner, moved) for name, inner in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = _narrowed(value, moved)
        elif key == "pattern" and isinstance(value, str) and not _LOOKAROUND.search(value):
            out[key] = value.removeprefix("^").removesuffix("$")
        elif key in _UNKNOWN or key == "pattern" or (key == "format" and value not in _FORMATS):
            words[key] = value
        elif key != "$schema":
            out[key] = value
    properties = out.get("properties")
    if isinstance(properties, dict) and properties and not out.get("required"):
        out["required"] = [next(iter(properties))]
    if words:
        moved.append(words)
        text = msgspec.json.encode(words).decode()
        out["description"] = f"{out['description']} {text}" if out.get("description") else text
    return out


def _merged(schema: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """The parts of `allOf` as one schema; references among them cannot be merged and go into words."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    out = {key: value for key, value in schema.items() if key != "allOf"}
    if parts and not out.keys() & {"properties", "type", "$ref"} and len(parts) == 1:
        return {**parts[0], **out}
    rest = []
    for part in parts:
        if not isinstance(part, dict) or part.keys() & {"$ref", "anyOf", "oneOf", "if", "not"}:
            rest.append(part)
            continue
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {**out.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                out[key] = list(dict.fromkeys([*out.get(key, []), *value]))
            else:
                out.setdefault(key, value)
    if rest:
        words["allOf"] = rest
    return out
