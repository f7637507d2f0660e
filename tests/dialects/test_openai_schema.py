"""Schemas in OpenAI's strict subset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.dialects.schemas import openai_strict_schema, strict_problem


def test_optional_properties_become_nullable():
    """And all are required."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"enum": ["x", "y"]},
            "d": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "e": {"type": ["string", "null"]},
            "f": {"type": "null"},
            "g": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "h": {"type": "string", "enum": ["x"]},
            "i": True,
        },
        "required": ["a"],
    }
    strict = openai_strict_schema(schema)
    assert strict["required"] == list("abcdefghi")
    assert strict["additionalProperties"] is False
    assert strict["properties"] == {
        "a": {"type": "string"},
        "b": {"type": ["integer", "null"]},
        "c": {"anyOf": [{"enum": ["x", "y"]}, {"type": "null"}]},
        "d": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "e": {"type": ["string", "null"]},
        "f": {"type": "null"},
        "g": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "h": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]},
        "i": True,
    }
    assert strict_problem(strict) is None


def test_inner_objects_are_closed_too():
    inner = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    closed = {**inner, "additionalProperties": False}
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": inner}, "ref": {"$ref": "#/$defs/One"}},
        "required": ["list", "ref"],
        "$defs": {"One": inner},
        "anyOf": [inner],
    }
    strict = openai_strict_schema(schema)
    assert strict["properties"]["list"]["items"] == closed
    assert (strict["$defs"], strict["anyOf"]) == ({"One": closed}, [closed])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        {
            "type": "object",
            "properties": {"b": {"type": "string"}, "a": {"type": "string"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_fitting_schema_comes_out_unchanged(schema):
    assert openai_strict_schema(schema) == schema
    assert strict_problem(schema) is None


@pytest.mark.parametrize("more", [{"type": "string"}, True])
def test_open_maps_cannot_be_strict(more):
    inner = {"type": "object", "additionalProperties": more}
    assert openai_strict_schema({"type": "object", "properties": {"map": inner}}) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": {}}, "'additionalProperties' is required"),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            "Missing 'a'",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "object"}}},
                "required": ["a"],
                "additionalProperties": False,
            },
            "context=('properties', 'a', 'items')",
        ),
    ],
)
def test_unstrict_schema_is_explained(schema, words):
    assert words in strict_problem(schema)


leaves = st.sampled_from([{"type": "string"}, {"type": ["integer", "null"]}, {"enum": [1]}, {}])
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(lambda item: {"type": "array", "items": item}),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).flatmap(
            lambda named: st.lists(st.sampled_from("abc"), unique=True).map(
                lambda required: {
                    "type": "object",
                    "properties": named,
                    "required": [name for name in required if name in named],
                }
            )
        ),
    ),
    max_leaves=8,
)


@given(schemas)
def test_strict_schemas_stay_unchanged(schema):
    strict = openai_strict_schema(schema)
    assert strict_problem(strict) is None
    assert openai_strict_schema(strict) == strict
