"""The input of a call as a JSON value while it comes."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream import Accumulator
from llmstream import events as ev
from llmstream.partial_json import PartialJSON
from tests.examples import examples

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.text(max_size=3), values), st.lists(st.booleans(), min_size=1), st.integers(1, 5))
def test_tool_value_equals_parser_value(value: dict[str, object], reads: list[bool], width: int) -> None:
    text = json.dumps(value)
    fold, parser = Accumulator(), PartialJSON()
    fold.feed_many([ev.StreamStart(), ev.ToolInputStart("t", "c")])
    for index in range(0, len(text), width):
        piece = text[index : index + width]
        fold.feed(ev.ToolInputDelta(piece, "c"))
        parser.feed(piece)
        if reads[index % len(reads)]:
            assert fold.tool_value("c") == parser.value
    fold.feed_many([ev.ToolInputEnd("c"), ev.ToolCall("t", text, "c")])
    assert fold.tool_value("c") == value
    assert fold.tool_input("c") == text


def test_call_without_deltas_has_its_input() -> None:
    fold = Accumulator()
    fold.feed_many([ev.StreamStart(), ev.ToolCall("t", '{"a": 1}', "c")])
    assert fold.tool_value("c") == {"a": 1}
    assert fold.tool_value("c") == {"a": 1}
    assert fold.tool_value("d") is None


def test_bad_json_keeps_the_earlier_value() -> None:
    for text, value in (('{"a": 1 oops', {"a": 1}), ("[" * 200, None)):
        fold = Accumulator()
        fold.feed_many([ev.StreamStart(), ev.ToolInputStart("t", "c"), ev.ToolInputDelta(text, "c")])
        first = fold.tool_value("c")
        fold.feed(ev.ToolInputDelta(", more", "c"))
        assert fold.tool_value("c") == first
        assert value is None or first == value
