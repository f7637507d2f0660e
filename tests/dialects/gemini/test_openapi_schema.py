"""JSON schemas in the OpenAPI subset, and back."""

from __future__ import annotations

import pytest

from llmstream.dialects.gemini.request import json_schema, openapi_schema


def prop(schema, **root):
    return openapi_schema({"type": "object", "properties": {"a": schema}, **root})["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "subset"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (
            {"type": ["array", "string"], "items": {"type": "string"}},
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
        ),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": '{"enum":[1,2]}'}),
        ({"enum": [True]}, {"type": "boolean", "description": '{"enum":[true]}'}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {"type": "string", "format": "email", "description": "Mail"},
            {"type": "string", "description": 'Mail {"format":"email"}'},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "minimum": 1},
            {"type": "integer", "minimum": 1, "description": '{"exclusiveMinimum":0}'},
        ),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        (
            {
                "allOf": [
                    {"properties": {"b": {"type": "string"}}, "required": ["b"]},
                    {"required": ["b", "c"]},
                ]
            },
            {"properties": {"b": {"type": "string"}}, "required": ["b", "c"]},
        ),
        (True, {}),
    ],
)
def test_what_the_subset_makes_of_it(schema, subset):
    assert prop(schema) == subset


def test_references_are_written_out():
    defs = {"D": {"type": "string", "description": "d"}, "E/x": {"type": "integer"}}
    assert prop({"$ref": "#/$defs/D", "description": "own"}, **{"$defs": defs}) == {
        "type": "string",
        "description": "own",
    }
    assert prop({"$ref": "#/$defs/E~1x"}, **{"$defs": defs}) == {"type": "integer"}
    assert prop({"$ref": "#/$defs/None"}) == {}


def test_recursive_schema_is_cut_off():
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    found = openapi_schema(node)
    depth = 0
    while "properties" in found:
        found, depth = found["properties"]["next"], depth + 1
    assert 3 < depth < 30


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}, "$schema": "x"}])
def test_an_empty_object_is_none(schema):
    assert openapi_schema(schema) is None


def test_the_subset_as_json_schema():
    subset = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "nullable": True},
            "l": {"type": "ARRAY", "items": {"anyOf": [{"type": "NUMBER"}, {"type": "STRING"}]}},
        },
        "required": ["l"],
    }
    assert json_schema(subset) == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"]},
            "l": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}},
        },
        "required": ["l"],
    }
