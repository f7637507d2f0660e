"""`--schema`: files, JSON text, and the short syntax."""

from __future__ import annotations

import json

import pytest

from llmstream.cli.schemas import schema_of
from llmstream.errors import InvalidRequest

CAT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "bio": {"type": "string", "description": "a short bio"},
    },
    "required": ["name", "age", "bio"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "given",
    [
        "name, age int, bio: a short bio",
        "name str,age  integer ,bio :a short bio,",
        "name\nage int\n\nbio: a short bio\n",
    ],
)
def test_short_syntax_becomes_a_schema(given):
    assert schema_of(given) == CAT


def test_types_are_those_of_json():
    found = schema_of("a float, b bool: is it, c number")["properties"]
    assert found == {
        "a": {"type": "number"},
        "b": {"type": "boolean", "description": "is it"},
        "c": {"type": "number"},
    }


def test_a_description_may_have_commas():
    """Each field has its own line."""
    assert schema_of("a: one, two\nb")["properties"]["a"]["description"] == "one, two"


def test_json_and_files_are_schemas(tmp_path):
    file = tmp_path / "cat.json"
    file.write_text(json.dumps(CAT))
    assert schema_of(json.dumps(CAT)) == CAT
    assert schema_of(str(file)) == CAT


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "neither a JSON schema"),
        ("age years", "Types: str, int"),
        ("two words int", "Types: str, int"),
        ("9lives", "list of fields"),
        ("{", "--schema is not a JSON schema"),
        ("missing.json", "cannot read missing.json"),
    ],
)
def test_what_is_no_schema_is_refused(given, words):
    with pytest.raises(InvalidRequest) as refused:
        schema_of(given)
    assert words in str(refused.value)
