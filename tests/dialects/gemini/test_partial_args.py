"""Values at JSON paths, rebuilt as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream.dialects.gemini.partial_args import ArgumentsText, parse_path
from llmstream.dialects.gemini.wire import PartialArg
from llmstream.errors import DecodeError


def built(*pieces):
    text = ArgumentsText()
    return "".join([*(text.add(piece) for piece in pieces), text.close()])


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", []),
        ("$.a", ["a"]),
        ("a.b", ["a", "b"]),
        ("$.a[0].b[12]", ["a", 0, "b", 12]),
        ("$['a b'][\"c.d\"]", ["a b", "c.d"]),
        (r"$['it\'s']", ["it's"]),
        ("$.ø-1", ["ø-1"]),
    ],
)
def test_paths(path, steps):
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", ["$.", "$[", "$[a]", "$..a", "$" + ".a" * 600])
def test_what_is_no_path(path):
    with pytest.raises(DecodeError):
        parse_path(path)


def test_all_kinds_of_values():
    assert (
        built(
            PartialArg("$.s", string_value='"\n'),
            PartialArg("$.n", number_value=1.5),
            PartialArg("$.i", number_value=3),
            PartialArg("$.t", bool_value=True),
            PartialArg("$.f", bool_value=False),
            PartialArg("$.z", null_value=None),
            PartialArg("$.y", null_value="NULL_VALUE"),
            PartialArg("$.x", number_value="NaN"),
        )
        == '{"s":"\\"\\n","n":1.5,"i":3,"t":true,"f":false,"z":null,"y":null,"x":"NaN"}'
    )


def test_nothing_at_all_is_an_empty_object():
    assert built() == "{}"
    assert built(PartialArg("$.a", will_continue=True)) == "{}"


def test_a_value_alone():
    assert built(PartialArg("$", number_value=3)) == "3"


def test_next_path_closes_an_open_string():
    assert (
        built(PartialArg("$.a", string_value="x", will_continue=True), PartialArg("$.b", number_value=1))
        == '{"a":"x","b":1}'
    )


def test_elements_left_out_are_null():
    assert (
        built(PartialArg("$.a[2]", number_value=1), PartialArg("$.a[4]", number_value=2))
        == '{"a":[null,null,1,null,2]}'
    )


def test_surrogates_join_across_pieces():
    assert (
        built(
            PartialArg("$.a", string_value="x\ud83d", will_continue=True),
            PartialArg("$.a", string_value="\ude00", will_continue=True),
            PartialArg("$.a", string_value="\ud83d"),
        )
        == '{"a":"x😀\ufffd"}'
    )


@pytest.mark.parametrize(
    "paths",
    [
        ("$.a", "$.a"),
        ("$.a", "$.b", "$.a"),
        ("$.a.b", "$.c", "$.a.d"),
        ("$.l[1]", "$.l[0]"),
        ("$.a", "$.a.b"),
        ("$.a.b", "$.a"),
        ("$.a", "$[0]"),
        ("$[0]", "$.a"),
        ("$", "$.a"),
        ("$.a", "$"),
        ("$.a", "$.b[1001]"),
        ("$.l[0]", "$.l[2000]"),
    ],
)
def test_backward_paths_are_refused(paths):
    """The text stays JSON."""
    text = ArgumentsText()
    out = [text.add(PartialArg(path, number_value=1)) for path in paths[:-1]]
    with pytest.raises(DecodeError):
        text.add(PartialArg(paths[-1], number_value=1))
    assert text.broken
    json.loads("".join([*out, text.close()]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(
            st.text(
                st.characters(exclude_characters="'\\", exclude_categories=["Cs"]), min_size=1, max_size=4
            ),
            inner,
            min_size=1,
            max_size=3,
        )
    ),
    max_leaves=12,
)


def pieces_of(value, path):
    """How the vendor would stream a value, strings in two pieces."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from pieces_of(inner, f"{path}['{name}']")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from pieces_of(inner, f"{path}[{place}]")
    elif isinstance(value, str):
        half = len(value) // 2
        yield PartialArg(path, string_value=value[:half], will_continue=True)
        yield PartialArg(path, string_value=value[half:])
    elif isinstance(value, bool):
        yield PartialArg(path, bool_value=value)
    elif value is None:
        yield PartialArg(path, null_value=None)
    else:
        yield PartialArg(path, number_value=value)


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4))
def test_any_value_is_rebuilt(value):
    assert json.loads(built(*pieces_of(value, "$"))) == value
