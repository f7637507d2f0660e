"""Tags that a server leaves in the content."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_chat import Quirks, ReasoningQuirks
from llmstream.dialects.openai_chat.reasoning import ThinkTags


def split(text, sizes=(), *, opened=False, tag="think"):
    tags = ThinkTags(opened=opened, tag=tag)
    out = {True: "", False: ""}
    position = 0
    for size in [*sizes, len(text)]:
        for inside, words in tags.feed(text[position : position + size]):
            out[inside] += words
        position += size
    for inside, words in tags.close():
        out[inside] += words
    return out[True], out[False]


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>a b</think>\n\nc", False, ("a b", "c")),
        ("\n <think>\na</think>c", False, ("a", "c")),
        ("no tags", False, ("", "no tags")),
        ("about <think>tags</think>", False, ("", "about <think>tags</think>")),
        ("a < b", False, ("", "a < b")),
        ("<thin", False, ("", "<thin")),
        ("<think>never closed </thin", False, ("never closed </thin", "")),
        ("a</think>b", True, ("a", "b")),
        ("<think>a</think>b", True, ("a", "b")),
        ("a<b</think>c</think>", True, ("a<b", "c</think>")),
        ("<think></think>b", False, ("", "b")),
    ],
)
def test_tags_split_reasoning_at_every_cut(text, opened, expected):
    assert split(text, opened=opened) == expected
    assert split(text, [1] * len(text), opened=opened) == expected
    for cut in range(len(text)):
        assert split(text, [cut], opened=opened) == expected


def test_a_tag_may_have_another_name():
    text = "<reasoning>a <think> b</reasoning>c"
    for first in range(len(text)):
        assert split(text, (first,), tag="reasoning") == ("a <think> b", "c")
    assert split("<think>a</think>b", tag="reasoning") == ("", "<think>a</think>b")


def test_bedrock_tags_leave_the_content(wire):
    quirks = Quirks(reasoning=ReasoningQuirks(tags="tags", tag="reasoning"))
    answer = wire.answer("<reason", "ing>hm</rea", "soning>yes", wire.chunk({}, "stop"), quirks=quirks)
    assert (answer.reasoning, answer.text, answer.errors) == ("hm", "yes", [])


def test_quirk_takes_tags_out_of_the_content(wire):
    quirks = Quirks(reasoning=ReasoningQuirks(tags="tags"))
    answer = wire.answer("<thi", "nk>hm", "</think>", "\n\nso", wire.chunk({}, "stop"), quirks=quirks)
    assert (answer.reasoning, answer.text) == ("hm", "so")


def test_a_tag_that_never_completes_is_text(wire):
    for last in ((wire.chunk({}, "stop"),), ()):
        answer = wire.answer(
            "<thi", *last, done=bool(last), quirks=Quirks(reasoning=ReasoningQuirks(tags="tags"))
        )
        assert answer.text == "<thi"


def test_reasoning_field_disables_tags(wire):
    quirks = Quirks(reasoning=ReasoningQuirks(tags="opened"))
    answer = wire.answer(wire.chunk({"reasoning": "hm"}), "so", wire.chunk({}, "stop"), quirks=quirks)
    assert (answer.reasoning, answer.text) == ("hm", "so")


def test_without_the_quirk_tags_stay(wire):
    assert wire.answer("<think>a</think>b", wire.chunk({}, "stop")).text == "<think>a</think>b"


def test_tag_like_text_stays_with_reasoning(wire):
    answer = wire.answer(
        "<thi", wire.chunk({"reasoning": "hm"}), quirks=Quirks(reasoning=ReasoningQuirks(tags="tags"))
    )
    assert (answer.text, answer.reasoning) == ("<thi", "hm")


def test_repeated_reasoning_may_leave_tags(wire):
    quirks = Quirks(reasoning=ReasoningQuirks(tags="tags", dedupe=True))
    answer = wire.answer("<think>a</think>", "b", "b", wire.chunk({}, "stop"), quirks=quirks)
    assert (answer.reasoning, answer.text) == ("a", "bb")
