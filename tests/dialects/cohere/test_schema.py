"""Schemas in the subset of Cohere's structured outputs."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.dialects.cohere.request import cohere_schema


def test_a_schema_that_fits_stays() -> None:
    fits = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "when": {"type": "string", "format": "date-time"},
            "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "node": {"$ref": "#/$defs/node"},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": {"node": {"type": "array", "items": {"type": "integer"}}},
    }
    assert cohere_schema(fits) == (fits, False)


@pytest.mark.parametrize(
    ("schema", "narrowed", "moved"),
    [
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": '{"minimum":1}'}, True),
        (
            {"type": "string", "maxLength": 3, "description": "short"},
            {"type": "string", "description": 'short {"maxLength":3}'},
            True,
        ),
        (
            {"type": "string", "format": "email"},
            {"type": "string", "description": '{"format":"email"}'},
            True,
        ),
        ({"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "a+"}, False),
        (
            {"type": "string", "pattern": "(?=a)b"},
            {"type": "string", "description": '{"pattern":"(?=a)b"}'},
            True,
        ),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}, False),
        ({"allOf": [{"$ref": "#/$defs/x"}]}, {"$ref": "#/$defs/x"}, False),
        (
            {
                "type": "object",
                "allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}],
            },
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
            False,
        ),
        (
            {"type": "object", "allOf": [{"if": {"required": ["a"]}}]},
            {"type": "object", "description": '{"allOf":[{"if":{"required":["a"]}}]}'},
            True,
        ),
        ({"$schema": "https://json-schema.org/x", "type": "string"}, {"type": "string"}, False),
    ],
)
def test_one_by_one(schema: dict[str, Any], narrowed: dict[str, Any], moved: bool) -> None:
    inside = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    out, said = cohere_schema(inside)
    assert (out["properties"]["a"], said) == (narrowed, moved)


def test_an_object_requires_something() -> None:
    out, moved = cohere_schema({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}})
    assert (out["required"], moved) == (["a"], False)
    assert cohere_schema({"type": "object", "properties": {}}) == (
        {"type": "object", "properties": {}},
        False,
    )
