"""Partial JSON: every case at every cut, monotony, equality with json.loads, linear cost."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.errors import DecodeError, LimitExceeded
from llmstream.partial_json import MAX_DEPTH, MAX_NUMBER_CHARS, PartialJSON

NOTHING: Any = object()

# text, state, value
OWN_CASES: list[tuple[str, str, Any]] = [
    ("", "none", NOTHING),
    (" \n", "none", NOTHING),
    ("-", "none", NOTHING),
    ("nul", "none", NOTHING),
    ("null", "complete", None),
    ("12", "complete", 12),
    ("12.", "partial", 12),
    ("-0.5E-3 ", "complete", -0.0005),
    ('"a', "partial", "a"),
    ("{", "partial", {}),
    ('{"a', "partial", {}),
    ('{"a":', "partial", {}),
    ('{"a":"', "partial", {"a": ""}),
    ('{"a":-', "partial", {}),
    ('{"a": [1, {"b": tru', "partial", {"a": [1, {}]}),
    ('{"a": [1, {"b": true}], "": "\\u00e9\\n"}', "complete", {"a": [1, {"b": True}], "": "\u00e9\n"}),
    ('{"k\\"\\u0041":0}', "complete", {'k"A': 0}),
    ('["x\\ud83d\\ude', "partial", ["x"]),
    ('["x\\ud83d\\ude00', "partial", ["x\U0001f600"]),
    ("[1.5e", "partial", [1.5]),
    ('{"a":1,"b":2,"a":', "partial", {"a": 1, "b": 2}),
    ('{"a":"old","b":2,"a":"n', "partial", {"a": "n", "b": 2}),
    ("9" * 400 + ".5", "partial", int("9" * 400)),
    ("9" * 400 + ".5e-39", "partial", int("9" * 400)),
    ("9" * 400 + ".5e-399", "complete", 10.0),
    ("[" * MAX_DEPTH + "]" * MAX_DEPTH, "complete", json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)),
]

INVALID = [
    "[1,]", '{"a":1,}', "[,", "{,", "{1", "{'", "[01", "[+1", "[.5", "[1.,", "[1.]", "[-]", "1-", "--",
    "1e400", "[1e400]", "[NaN", "-I", "tRue", "nulx", '"\\x', '"\\u00g', '"\\ude', '"\\ud83dx',
    '"\\ud83d\\u0', '"a\nb', '"\ud800', "\ufeff{}", "]", "}",
    '{"a":[1}', '["a" "b"', '{"a" "b"', '{"a"}', '{"a":1 "b"', "{}{", "{} x", "1 2", "// c", "```",
]  # fmt: skip

DOCUMENTS = [
    '{"city": "Z\u00fcrich", "n": [1, -2.5e+10, 9007199254740993], "t": "a\\\\\\"\\u00e9\\ud83d\\ude00b"}',
    '[[], {}, [[]], null, true, false, "", {"": {"a": [{}]}}, "\\b\\f\\n\\r\\t\\/"]',
    "  {  \"a\"  :  [  1  ,  2  ]  }  ",
]  # fmt: skip


def parse(fragments: list[str], *, look: bool = True) -> PartialJSON:
    parser = PartialJSON()
    try:
        for fragment in fragments:
            parser.feed(fragment)
            if look:
                copy.copy(parser.value)
    except LimitExceeded:
        assert parser.error is not None
    return parser


def ways(text: str, *, all_cuts: bool = True) -> Iterator[list[str]]:
    yield [text]
    yield list(text)
    for at in range(1, len(text)) if all_cuts else ():
        yield [text[:at], text[at:]]


def check(text: str, state: str, value: Any) -> None:
    for fragments in ways(text, all_cuts=len(text) < 1000):
        for look in (True, False):
            parser = parse(fragments, look=look)
            assert parser.state == state, fragments
            assert parser.complete is (state == "complete")
            if state in ("complete", "partial"):
                assert repr(parser.value) == repr(value), fragments
            elif state == "none":
                assert parser.value is None


@pytest.mark.parametrize(("text", "state", "value"), OWN_CASES, ids=[c[0][:20] for c in OWN_CASES])
def test_own_cases_hold_at_every_cut(text: str, state: str, value: Any) -> None:
    check(text, state, value)


@pytest.mark.parametrize("text", INVALID)
def test_no_json_is_noted_never_complete(text: str) -> None:
    check(text, "invalid", NOTHING)
    parser = parse([text])
    assert isinstance(parser.error, DecodeError)
    parser.feed(" ")  # a display may go on
    assert parser.state == "invalid"


@pytest.mark.parametrize(
    ("text", "position", "found"),
    [
        ('{"a":"x\ny', 7, r"'\n'"),
        ("[1, 2, x", 7, "'x'"),
        ("[01", 2, "'1'"),
        ('"\\u00g', 5, "'g'"),
        ("{}\n{", 3, "'{'"),
    ],
)
def test_error_names_position_and_character(text: str, position: int, found: str) -> None:
    for fragments in ways(text):
        message = str(parse(fragments).error)
        assert f"character {position}:" in message
        assert f"found {found}" in message


def test_text_before_a_fault_stays_visible() -> None:
    assert parse(['{"a": "x', "y\n"]).value == {"a": "xy"}
    assert parse(["[1, 2", "3.x"]).value == [1, 23]
    assert parse(['{"a": 1}', "}"]).value == {"a": 1}


@pytest.mark.parametrize("text", ["12+9", "[1.5-", '{"a":-20e1.', "12345-"])
def test_number_before_fault_is_shown(text: str) -> None:
    """At every cut of the text."""
    whole = PartialJSON()
    whole.feed(text)
    for cut in range(len(text)):
        parser = PartialJSON()
        parser.feed(text[:cut])
        parser.feed(text[cut:])
        assert (parser.state, parser.value) == ("invalid", whole.value)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_is_limited_by_a_typed_error(opening: str) -> None:
    assert parse([opening * MAX_DEPTH]).state == "partial"
    parser = PartialJSON()
    with pytest.raises(LimitExceeded, match="max_depth"):
        parser.feed(opening * 5000)
    assert parser.state == "invalid"
    with pytest.raises(LimitExceeded):
        parser.feed("1")
    assert PartialJSON(max_depth=1).max_depth == 1


def test_integers_exact_up_to_the_cap() -> None:
    """Longer ones are refused."""
    digits = "9" * MAX_NUMBER_CHARS
    assert parse([f"[{digits}]"]).value == [int(digits)]
    for text in (f"[{digits}9", f"[0.{digits}"):
        parser = PartialJSON()
        with pytest.raises(LimitExceeded, match="4300"):
            parser.feed(text)


def test_overlong_number_is_always_refused() -> None:
    """Even if a fault follows."""
    parser = PartialJSON()
    with pytest.raises(LimitExceeded):
        parser.feed("1" * 5000 + "-")
    assert parser.state == "invalid"


def test_live_value_keeps_read_strings() -> None:
    parser = PartialJSON()
    parser.feed('{"a": "x')
    box, text = parser.value, parser.value["a"]
    parser.feed("y")
    assert parser.value is box
    assert (text, box) == ("x", {"a": "xy"})


def extends(old: Any, new: Any, *, last: bool = True) -> bool:
    """Whether new shows all that old showed: the law of monotony."""
    if isinstance(old, str) and isinstance(new, str):
        return new.startswith(old) if last else new == old
    if isinstance(old, list) and isinstance(new, list):
        return len(old) <= len(new) and all(
            extends(a, b, last=last and i == len(old) - 1)
            for i, (a, b) in enumerate(zip(old, new, strict=False))
        )
    if isinstance(old, dict) and isinstance(new, dict):
        keys = list(old)
        return list(new)[: len(keys)] == keys and all(
            extends(old[key], new[key], last=last and key == keys[-1]) for key in keys
        )
    if last and isinstance(old, int | float) and not isinstance(old, bool):
        return isinstance(new, int | float)
    return bool(old == new)


def check_document(text: str) -> None:
    final = json.loads(text)
    for fragments in ways(text):
        parser = PartialJSON()
        shown: Any = NOTHING
        for fragment in fragments:
            parser.feed(fragment)
            if parser.state in ("partial", "complete"):
                now = copy.deepcopy(parser.value)
                assert shown is NOTHING or extends(shown, now), (shown, now)
                shown = now
            else:
                assert (parser.state, shown) == ("none", NOTHING)
        assert parser.complete
        assert repr(parser.value) == repr(final)


@pytest.mark.parametrize("text", DOCUMENTS)
def test_nothing_shown_is_taken_back(text: str) -> None:
    check_document(text)


def test_shared_documents_grow_monotonously(shared_dir: Path) -> None:
    for text in json.loads((shared_dir / "partial_json_cases.json").read_text())["documents"]:
        check_document(text)


def test_shared_cases_hold_at_every_cut(shared_dir: Path) -> None:
    for case in json.loads((shared_dir / "partial_json_cases.json").read_text())["cases"]:
        check(case["text"], case["state"], case.get("value", NOTHING))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def pieces_of(text: str, data: Any) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(value=json_values, ascii_only=st.booleans(), data=st.data())
def test_any_value_comes_back_equal(value: Any, ascii_only: bool, data: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    parser = parse(pieces_of(text, data))
    assert parser.complete
    assert repr(parser.value) == repr(json.loads(text))


@given(
    text=st.lists(st.sampled_from([*'{}[],:"\\u0129.-+eEdD8cx tfn\n', "true", "null", '"a"', "\ud800"])).map(
        "".join
    )
    | st.text(max_size=20),
    data=st.data(),
)
def test_any_cut_gives_the_same_verdict(text: str, data: Any) -> None:
    whole = parse([text])
    cut = parse(pieces_of(text, data))
    assert cut.state == whole.state
    if whole.state != "invalid":
        assert repr(cut.value) == repr(whole.value)
    if whole.complete:
        assert repr(json.loads(text, parse_constant=pytest.fail)) == repr(whole.value)
        assert "inf" not in repr(whole.value)
    elif whole.state == "invalid" and "\\" not in text and "\ud800" not in text and "e" not in text.lower():
        with pytest.raises(
            (json.JSONDecodeError, pytest.fail.Exception)
        ):  # NaN and Infinity are Python's own
            json.loads(text, parse_constant=pytest.fail)
