"""Schemas without references."""

from __future__ import annotations

from llmstream.dialects.schemas import inlined

PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}


def test_a_reference_becomes_what_it_names():
    schema = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place", "description": "Where."}, "n": {"type": "integer"}},
        "$defs": {"Place": PLACE},
    }
    assert inlined(schema) == {
        "type": "object",
        "properties": {"at": {**PLACE, "description": "Where."}, "n": {"type": "integer"}},
    }


def test_references_lead_on():
    schema = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": PLACE}}
    assert inlined(schema) == {"items": {"items": PLACE}}


def test_what_cannot_be_inlined_stays():
    tree = {"$ref": "#/$defs/T", "$defs": {"T": {"items": {"$ref": "#/$defs/T"}}}}
    lost = {"items": {"$ref": "#/$defs/Nobody"}, "$defs": {}}
    doubling = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(40)}
    bomb = {"$ref": "#/$defs/D0", "$defs": {**doubling, "D40": PLACE}}
    for schema in (tree, lost, bomb, PLACE):
        assert inlined(schema) is schema
