"""Schemas in the subset that Moonshot checks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream.dialects.openai_chat.request import moonshot_schema
from tests.examples import examples

TYPES = {"null", "boolean", "object", "array", "number", "integer", "string"}
KEYWORDS = {
    "type", "description", "default", "enum", "required", "properties", "additionalProperties", "items",
    "anyOf", "$ref", "$defs",
}  # fmt: skip


def inside(schema: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a property."""
    narrowed, _ = moonshot_schema({"type": "object", "properties": {"a": schema}})
    found: dict[str, Any] = narrowed["properties"]["a"]
    return found


def problems(schema: Any, path: str = "root") -> list[str]:
    """What Moonshot's validator would say, by the rules of its document."""
    if not isinstance(schema, dict):
        return [f"{path}: no object"]
    found = [f"{path}: keyword {key}" for key in schema if key not in KEYWORDS]
    if path != "root" and "$defs" in schema:
        found.append(f"{path}: $defs")
    if "anyOf" in schema or "$ref" in schema:
        beside = schema.keys() - {"anyOf", "$ref", "description", "$defs"}
        found += [f"{path}: {key} beside anyOf or $ref" for key in beside]
        if not schema.get("$ref", "#").startswith(("#/$defs/", "#")):
            found.append(f"{path}: $ref")
    elif schema.get("type") not in TYPES:
        found.append(f"{path}: type is not defined")
    for name in schema.get("required", ()):
        if name not in schema.get("properties", {}):
            found.append(f"{path}: {name} is required and no property")
    for name, inner in {**schema.get("properties", {}), **schema.get("$defs", {})}.items():
        found += problems(inner, f"{path}.{name}")
    for place, inner in enumerate(schema.get("anyOf", ())):
        found += problems(inner, f"{path}.anyOf[{place}]")
    if "items" in schema:
        found += problems(schema["items"], f"{path}.items")
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        found += problems(schema["additionalProperties"], f"{path}.additionalProperties")
    return found


def test_a_schema_that_fits_stays() -> None:
    fits = {
        "type": "object",
        "properties": {
            "qs": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "limit": {"type": "integer", "default": 10, "description": "most"},
            "lang": {"type": "string", "enum": ["Chinese", "English"]},
            "node": {"$ref": "#/$defs/node"},
        },
        "required": ["qs"],
        "additionalProperties": False,
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            }
        },
    }
    assert moonshot_schema(fits) == (fits, False)


def test_a_type_goes_into_the_branches() -> None:
    assert inside({"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
                   "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}) == {
        "anyOf": [
            {"type": "object", "required": [name],
             "properties": {"x": {"type": "string"}, "y": {"type": "string"}}}
            for name in ("x", "y")
        ]
    }  # fmt: skip


def test_root_stays_an_object_with_text() -> None:
    """Its alternatives move into the description."""
    root, moved = moonshot_schema(
        {
            "type": "object",
            "description": "Either.",
            "anyOf": [
                {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"]},
                {"properties": {"b": {"type": "string"}, "c": {"type": "string"}}, "required": ["b", "c"]},
            ],
        }
    )
    assert moved
    assert (root["type"], sorted(root["properties"]), root["required"]) == ("object", ["a", "b", "c"], ["c"])
    assert root["description"] == 'Either. {"anyOf":[{"required":["a","c"]},{"required":["b","c"]}]}'


@pytest.mark.parametrize(
    ("schema", "narrowed"),
    [
        ({"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"properties": {"x": {"type": "null"}}}, {"type": "object", "properties": {"x": {"type": "null"}}}),
        ({"items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array", "items": {}}, {"type": "array"}),
        ({"type": "string", "title": "T", "$comment": "c"}, {"type": "string"}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"$ref": "#/definitions/n", "type": "object"}, {"$ref": "#/$defs/n"}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": '{"minimum":1}'}),
        (
            {"allOf": [{"properties": {"x": {"type": "string"}}}, {"required": ["x"]}]},
            {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        ),
    ],
)
def test_one_by_one(schema: dict[str, Any], narrowed: dict[str, Any]) -> None:
    assert inside(schema) == narrowed


def test_definitions_move_to_the_newer_name() -> None:
    root, _ = moonshot_schema(
        {"properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"minLength": 1}}}
    )
    assert set(root["$defs"]) == {"n"}
    assert problems(root) == []


def test_reference_to_a_property_is_inlined() -> None:
    properties = {"a": {"type": "string"}, "b": {"$ref": "#/properties/a", "description": "as a"}}
    root, _ = moonshot_schema({"type": "object", "properties": properties})
    assert root["properties"]["b"] == {"type": "string", "description": "as a"}


def test_a_schema_that_holds_itself_ends() -> None:
    root, _ = moonshot_schema({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}})
    assert problems(root) == []


_LEAVES = st.sampled_from(
    [
        {},
        {"type": "string"},
        {"type": ["integer", "null"]},
        {"enum": ["a", 1, None, True]},
        {"const": None},
        {"type": "number", "maximum": 3},
        {"$ref": "#/$defs/d"},
        {"$ref": "#"},
        {"type": "string", "format": "date"},
        {"not": {"type": "string"}},
        True,
    ]
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", ["object", "null"]]),
            "description": st.just("words"),
            "properties": st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
            "required": st.lists(st.sampled_from("xyz"), max_size=2, unique=True),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "additionalProperties": inner,
        },
    ),
    max_leaves=6,
)


@settings(max_examples=examples(200), deadline=None)
@given(_SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
def test_whatever_comes_is_in_the_subset(schema: dict[str, Any]) -> None:
    root, _ = moonshot_schema({**schema, "$defs": {"d": {"type": "object"}}})
    assert root["type"] == "object"
    assert problems(root) == []
