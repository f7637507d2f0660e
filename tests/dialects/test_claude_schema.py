"""Schemas fitted to the vendor's compiler."""

from __future__ import annotations

from llmstream.dialects.schemas import claude_strict_schema


def test_objects_are_closed_at_every_depth():
    inner = {"type": "object", "properties": {"a": {"type": ["object", "null"]}}}
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": inner}}, "$defs": {"d": inner}}
    fitted = claude_strict_schema(schema)
    assert fitted["additionalProperties"] is False
    item = fitted["properties"]["x"]["items"]
    assert item["additionalProperties"] is False
    assert item["properties"]["a"]["additionalProperties"] is False
    assert fitted["$defs"]["d"]["additionalProperties"] is False


def test_constraints_move_into_description():
    assert claude_strict_schema({"type": "integer", "minimum": 1, "description": "A day."}) == {
        "type": "integer",
        "description": 'A day. {"minimum":1}',
    }
    assert claude_strict_schema({"type": "string", "pattern": "^a"}) == {
        "type": "string",
        "description": '{"pattern":"^a"}',
    }


def test_known_formats_and_small_minima_stay():
    schema = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "date-time"}}
    assert claude_strict_schema(schema) == schema
    assert "format" not in claude_strict_schema({"type": "string", "format": "color"})
    assert "minItems" not in claude_strict_schema({"type": "array", "minItems": 3})


def test_one_of_becomes_any_of():
    assert claude_strict_schema({"oneOf": [{"type": "string"}]}) == {"anyOf": [{"type": "string"}]}
    both = {"oneOf": [{"type": "string"}], "anyOf": [{"type": "null"}]}
    assert claude_strict_schema(both) == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_property_may_be_named_as_constraint():
    schema = {"type": "object", "properties": {"pattern": {"type": "string"}, "minimum": {"type": "number"}}}
    assert set(claude_strict_schema(schema)["properties"]) == {"pattern", "minimum"}


def test_fitting_is_idempotent_and_pure():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}
    once = claude_strict_schema(schema)
    assert claude_strict_schema(once) == once
    assert schema["properties"]["n"] == {"type": "integer", "maximum": 3}
