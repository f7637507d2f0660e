"""`--schema`: a file, a JSON schema, or fields with types."""

from __future__ import annotations

import json

import pytest

from llmstream.cli.arguments import read_schema
from llmstream.errors import InvalidRequest


def test_short_form_becomes_a_schema():
    assert read_schema("name, age int, bio: a short bio, tags str[], ok bool, x float: metres") == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "bio": {"type": "string", "description": "a short bio"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "ok": {"type": "boolean"},
            "x": {"type": "number", "description": "metres"},
        },
        "required": ["name", "age", "bio", "tags", "ok", "x"],
        "additionalProperties": False,
    }


def test_lines_may_have_commas():
    found = read_schema("name: first, then last\nage int\n")["properties"]
    assert found["name"]["description"] == "first, then last"
    assert list(found) == ["name", "age"]


def test_files_and_schemas_are_read(tmp_path, monkeypatch):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    (tmp_path / "label.json").write_text(json.dumps(schema))
    monkeypatch.chdir(tmp_path)
    assert read_schema("label.json") == schema
    assert read_schema(json.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "--schema is empty"),
        ("missing.json", "there is no such file"),
        ("dir/missing", "there is no such file"),
        ("name, name", "names the field 'name' twice"),
        ("age integr", "the type 'integr'"),
        ("2nd", "neither a file nor a field"),
        ("a b c", "neither a file nor a field"),
        ("{bad", "is not a JSON schema"),
    ],
)
def test_other_texts_are_refused(text: str, problem: str):
    with pytest.raises(InvalidRequest, match=problem):
        read_schema(text)
