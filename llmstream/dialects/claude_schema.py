"""JSON schemas as the grammar compiler behind Claude takes them, wherever it is served.

Objects are closed, `oneOf` becomes `anyOf`, and the constraints the compiler does not know
move into the description, where the model still reads them.
source: "Structured outputs", JSON schema limitations, in Anthropic's documents
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["claude_strict_schema"]

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
    """A copy of a schema in the vendor's subset; applied twice, it changes nothing more."""
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
