"""JSON values and texts on the way into events."""

from __future__ import annotations

import pytest

from llmstream.dialects.base import dialect_class
from llmstream.dialects.json_text import encodable_value, is_json, object_text
from llmstream.errors import ProviderError


@pytest.mark.parametrize("text", ["{}", "[1]", '"\\ud83d"', "1e999", " 1 "])
def test_what_is_json(text):
    assert is_json(text)


@pytest.mark.parametrize("text", ["", "{", "NaN", "{'a': 1}", "[" * 100_000])
def test_what_is_not(text):
    assert not is_json(text)


def test_surrogates_are_replaced_everywhere():
    assert encodable_value({"a\ud83d": ["\ud83d\ude00", 1, None]}) == {"a\ufffd": ["😀", 1, None]}


def test_deep_values_are_encodable():
    """Deeper than Python calls functions."""
    depth, value = 5_000, ["\ud83d"]
    for level in range(depth):
        value = [value] if level % 2 else {"a\ud83d": value}
    made = encodable_value(value)
    for level in reversed(range(depth)):
        made = made[0] if level % 2 else made["a\ufffd"]
    assert made == ["\ufffd"]


@pytest.mark.parametrize("wire", ["cohere", "mistral"])
def test_deeply_nested_error_is_read(wire):
    """A depth that JSON parsers follow."""
    deep = "[" * 700 + "]" * 700
    decoder = dialect_class(wire)().decoder(provider="any")
    decoder.feed(f'data: {{"object": "error", "error": {deep}, "message": {deep}}}\n\n'.encode())
    assert isinstance(decoder.failure, ProviderError)


def test_the_given_value_is_not_changed():
    given = {"a": ["\ud83d", {"b": "\ud83d"}]}
    assert encodable_value(given) == {"a": ["\ufffd", {"b": "\ufffd"}]}
    assert given == {"a": ["\ud83d", {"b": "\ud83d"}]}


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
