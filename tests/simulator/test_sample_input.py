"""Input made from a schema fits the schema."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.simulator.sample_input import sample_value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"city": {"type": "string"}}}, {"city": "Paris"}),
        (
            {"type": "object", "properties": {"a": {}, "b": {"type": "boolean"}}, "required": ["b"]},
            {"b": True},
        ),
        ({"type": "object"}, {}),
        ({"enum": ["c", "f"]}, "c"),
        ({"const": 5}, 5),
        ({"type": "string", "default": "x"}, "x"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "maxLength": 3}, "how"),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "number", "maximum": 0.5}, -0.5),
        ({"type": "integer", "minimum": 1, "multipleOf": 5}, 5),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": ["null", "string"]}, "how warm is it?"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"allOf": [{"type": "object"}, {"properties": {"n": {"type": "integer"}}}]}, {"n": 1}),
        ({"$ref": "#/$defs/P", "$defs": {"P": {"type": "integer"}}}, 1),
        ({"$ref": "#/$defs/nothing"}, "how warm is it?"),
        (True, None),
    ],
)
def test_values_fit_their_schema(schema: Any, value: object) -> None:
    assert sample_value(schema, prompt="how warm is it?") == value


def test_a_recursive_schema_comes_to_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}
    assert sample_value({"$ref": "#/$defs/N", "$defs": {"N": node}})["next"]["next"]
