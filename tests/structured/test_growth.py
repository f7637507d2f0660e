"""Values that grow: whatever the cuts, each is a prefix of the next, and the last is the whole."""

from __future__ import annotations

import datetime
import enum
import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from llmstream import events as ev
from llmstream.structured import Output
from llmstream.structured.growth import Growth
from tests.examples import examples


class Kind(enum.Enum):
    A = "a"
    AB = "ab"


class Leaf(msgspec.Struct, tag="leaf"):
    text: str
    size: int | None = None


class Branch(msgspec.Struct, tag="branch", rename="camel"):
    sub_nodes: list[Leaf | Branch]
    kind: Kind = Kind.A
    day: datetime.date | None = None
    more: dict[str, float] = {}


kinds = st.sampled_from(Kind)
leaves = st.builds(Leaf, st.text(max_size=8), st.none() | st.integers(-999, 999))
trees = st.recursive(
    leaves,
    lambda inner: st.builds(
        Branch,
        st.lists(inner, max_size=3),
        kinds,
        st.none() | st.dates(),
        st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False), max_size=2),
    ),
    max_leaves=6,
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    at = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(at)]


def grown(output: Output | None, parts: list[str]) -> list[Any]:
    growth = Growth(output)
    return [value for part in parts for value in growth.feed(ev.TextDelta(part, "0"))]


def is_prefix(less: Any, more: Any) -> bool:
    """Whether a snapshot may stand before another."""
    if less is UNSET:
        return True
    if isinstance(less, str) and isinstance(more, str):
        return more.startswith(less)
    if isinstance(less, list) and isinstance(more, list):
        return len(less) <= len(more) and all(map(is_prefix, less, more))
    if isinstance(less, dict) and isinstance(more, dict):
        return all(key in more and is_prefix(less[key], more[key]) for key in less)
    if isinstance(less, msgspec.Struct) and isinstance(more, msgspec.Struct):
        names = less.__struct_fields__
        same = names == more.__struct_fields__
        return same and all(is_prefix(getattr(less, n), getattr(more, n)) for n in names)
    return bool(less == more)


@settings(max_examples=examples(150), deadline=None)
@given(trees, st.lists(st.integers(0, 10_000), max_size=30))
def test_snapshots_are_prefixes_of_the_next(value: Any, cuts: list[int]) -> None:
    output = Output(Leaf | Branch)
    text = json.dumps({"value": msgspec.to_builtins(value)})
    values = grown(output, pieces(text, cuts))
    assert values[-1] == output.read(text) == value
    assert all(is_prefix(a, b) for a, b in itertools.pairwise(values))
    assert all(repr(a) != repr(b) for a, b in itertools.pairwise(values[:-1]))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(trees, max_size=4), st.lists(st.integers(0, 10_000), max_size=20))
def test_elements_come_once_and_whole(values: list[Any], cuts: list[int]) -> None:
    output = Output(list[Leaf | Branch])
    text = json.dumps({"items": msgspec.to_builtins(values)})
    assert grown(output, pieces(text, cuts)) == values


def test_snapshots_do_not_change_afterwards() -> None:
    output = Output(Branch)
    text = json.dumps(msgspec.to_builtins(Branch([Leaf("abc"), Leaf("def")], more={"a": 1.5})))
    growth = Growth(output)
    shown = [(value, repr(value)) for part in text for value in growth.feed(ev.TextDelta(part, "0"))]
    assert len(shown) > 10
    assert all(repr(value) == then for value, then in shown)


def test_half_enum_or_number_is_not_shown() -> None:
    output = Output(Branch)
    values = grown(output, list('{"kind": "ab", "type": "branch", "day": "2026-01-31", "more": {"x": 12.5}}'))
    assert {value.kind for value in values} == {UNSET, Kind.AB}
    assert {value.day for value in values} <= {UNSET, datetime.date(2026, 1, 31)}
    assert [value.more for value in values if value.more is not UNSET] == [{}, {"x": 12.5}]


def test_invalid_element_is_skipped() -> None:
    parts = list('{"items": [{"type": "leaf", "text": 1}, {"type": "leaf", "text": "b"}]}')
    assert grown(Output(list[Leaf]), parts) == [Leaf("b")]


def test_a_brace_in_prose_is_no_answer() -> None:
    assert grown(Output(Leaf), ["A {brace}, ", 'then {"text": "a"', ', "type": "leaf"}'])[-1] == Leaf("a")


def test_a_repeated_key_replaces_its_value() -> None:
    text = '{"type": "branch", "subNodes": [{"type": "leaf", "text": "a"}], "subNodes": [], "kind": "a"}'
    assert grown(Output(Branch), list(text))[-1] == Branch([])


def test_broken_json_ends_the_growth() -> None:
    assert [v.text for v in grown(Output(Leaf), ['{"text": "a"', " oops", ', "size": 1}'])] == ["a"]


def test_json_without_a_type_grows_as_it_is() -> None:
    assert grown(None, ['{"a": [1', "2], ", '"b": {}}'])[-1] == {"a": [12], "b": {}}


def steps_of(text: str, output: Output | None, size: int = 16) -> int:
    """Members that were copied or converted while a text comes in pieces."""
    growth = Growth(output)
    for at in range(0, len(text), size):
        growth.feed(ev.TextDelta(text[at : at + size], "0"))
    return growth._partial.cost


class Counted(msgspec.Struct):
    more: dict[str, int]


GROWING = {
    "a dict": (dict[str, int], lambda n: json.dumps({f"k{i}": 1 for i in range(n)})),
    "a dict in a struct": (Counted, lambda n: json.dumps({"more": {f"k{i}": 1 for i in range(n)}})),
    "no type": (None, lambda n: json.dumps({f"k{i}": {"x": 1} for i in range(n)})),
    "a list in no type": (None, lambda n: json.dumps({"a": [[1]] * n})),
    "a string": (None, lambda n: json.dumps({"a": "x" * 40 * n})),
    "one key again and again": (None, lambda n: "{" + ", ".join('"k": 1' for _ in range(n)) + "}"),
    "keys that come twice": (
        None,
        lambda n: "{" + ", ".join(f'"k{i % (n // 2)}": 1' for i in range(n)) + "}",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("output", "text_of"), GROWING.values(), ids=list(GROWING))
def test_double_text_takes_double_steps(output: Any, text_of: Any) -> None:
    typed = None if output is None else Output(output)
    less, more = (steps_of(text_of(count), typed) for count in (8_000, 16_000))
    assert more < 2.5 * less


def test_usual_value_shows_at_each_fragment() -> None:
    text = json.dumps({f"k{i}": 1 for i in range(500)})
    parts = [text[at : at + 16] for at in range(0, len(text), 16)]
    assert len(grown(Output(dict[str, int]), parts)) > 0.9 * len(parts)


def test_growing_repeated_key_shown_complete() -> None:
    text = '{"more": {"a": 1, "b": 2, "a": 345}}'
    shown = [value.more for value in grown(Output(Counted), list(text)) if value.more is not UNSET]
    assert {values.get("a") for values in shown} == {None, 1, 345}


async def test_large_values_give_the_loop_turns() -> None:
    growth = Growth(None)
    turns = 0
    text = json.dumps({f"k{i}": 1 for i in range(8_000)})
    for at in range(0, len(text), 16):
        growth.feed(ev.TextDelta(text[at : at + 16], "0"))
        turns += growth.turn_due()
    assert turns > 10
    assert turns < growth._partial.cost / 100_000
