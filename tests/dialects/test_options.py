"""Fields of the vendor's own that a caller adds."""

from __future__ import annotations

from llmstream.dialects.requests import merged, options_of
from llmstream.request import Request


def test_objects_merge_by_field_later_wins():
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [2]}) == {
        "a": {"b": 3, "c": 2},
        "d": [2],
    }


def test_provider_options_win_over_dialects():
    request = Request(
        model="m", provider_options={"google": {"a": 1, "b": 1}, "vertex": {"b": 2}, "x": {"c": 3}}
    )
    assert options_of(request, "google", "vertex") == {"a": 1, "b": 2}
    assert options_of(request, "google", "google") == {"a": 1, "b": 1}
    assert options_of(Request(model="m"), "google", "vertex") == {}
