"""JSON values and texts on the way into events."""

from __future__ import annotations

import pytest

from llmstream.dialects.json_text import encodable_value, is_json, object_text


@pytest.mark.parametrize("text", ["{}", "[1]", '"\\ud83d"', "1e999", " 1 "])
def test_what_is_json(text):
    assert is_json(text)


@pytest.mark.parametrize("text", ["", "{", "NaN", "{'a': 1}", "[" * 100_000])
def test_what_is_not(text):
    assert not is_json(text)


def test_surrogates_are_replaced_everywhere():
    assert encodable_value({"a\ud83d": ["\ud83d\ude00", 1, None]}) == {"a\ufffd": ["😀", 1, None]}


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("", b"{}"),
        (' {"a": 1.0} ', b'{"a": 1.0}'),
        ("[1]", b'{"input":[1]}'),
        ("{broken", b'{"input":"{broken"}'),
        ("5", b'{"input":5}'),
    ],
)
def test_objects_stay_others_are_wrapped(text, raw):
    assert bytes(object_text(text, key="input")) == raw
