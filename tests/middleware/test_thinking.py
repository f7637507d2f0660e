"""Tags in the text, cut anywhere, become reasoning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmstream as ls
from llmstream.events import ReasoningDelta, ReasoningEnd, ReasoningStart, TextDelta, TextEnd, TextStart
from llmstream.grammar import check
from llmstream.middleware import extract_thinking, wrap
from llmstream.middleware.thinking import TaggedText
from llmstream.simulator import Call, Turn
from llmstream.testing import Cut, ScriptedModel


def said(*pieces: str, more: tuple[ls.Event, ...] = (), reason: Any = "stop") -> Turn:
    deltas = [TextDelta(piece, "0") for piece in pieces]
    return Turn(events=(TextStart("0"), *deltas, TextEnd("0"), *more, ls.Finish(reason)))


def kinds(message: ls.Message) -> list[tuple[str, str]]:
    return [(part.part_kind, getattr(part, "text", "")) for part in message.parts]


@pytest.mark.parametrize(
    ("pieces", "parts"),
    [
        (["<think>why</think>so"], [("reasoning", "why"), ("text", "so")]),
        (
            ["\n<th", "ink>\nwh", "y\n", "</thi", "nk>", "\n\n", "so\n"],
            [("reasoning", "why"), ("text", "so\n")],
        ),
        (["so"], [("text", "so")]),
        ([" so ", "<think>why</think>"], [("text", " so <think>why</think>")]),
        (["<thin", "k no"], [("text", "<think no")]),
        (["<thi"], [("text", "<thi")]),
        (["  \n"], [("text", "  \n")]),
        (
            ["<think>a </", "thin</think>b<think>c</think>"],
            [("reasoning", "a </thin"), ("text", "b<think>c</think>")],
        ),
        (["<think>never ends</thi"], [("reasoning", "never ends</thi")]),
        (["<think>\n\n</think>\n\nso"], [("text", "so")]),
        (["<think>why</think>"], [("reasoning", "why")]),
        (["<think>a < b</think>"], [("reasoning", "a < b")]),
    ],
)
async def test_text_between_tags_is_reasoning(
    pieces: list[str], parts: list[tuple[str, str]], read: Any
) -> None:
    model = wrap(ScriptedModel(said(*pieces)), extract_thinking())
    assert kinds((await read(model)).stream.message) == parts


async def test_fragment_is_emitted_once_certain(read: Any) -> None:
    seen = await read(
        wrap(ScriptedModel(said("<think>", "a", " b", "</think>", "c", " d")), extract_thinking())
    )
    assert seen.events[1:-1] == [
        ReasoningStart("0-thinking"),
        ReasoningDelta("a", "0-thinking"),
        ReasoningDelta(" b", "0-thinking"),
        ReasoningEnd("0-thinking"),
        TextStart("0"),
        TextDelta("c", "0"),
        TextDelta(" d", "0"),
        TextEnd("0"),
    ]


async def test_anywhere_finds_passages_in_order(read: Any) -> None:
    text = "one <think>a</think> two <think> b </think><think></think>three"
    seen = await read(wrap(ScriptedModel(said(text)), extract_thinking(anywhere=True)))
    assert kinds(seen.stream.message) == [
        ("text", "one "),
        ("reasoning", "a"),
        ("text", " two "),
        ("reasoning", "b"),
        ("text", "three"),
    ]


async def test_a_template_may_have_opened_the_tag(read: Any) -> None:
    model = ScriptedModel(said("why", "</think>", "so"))
    seen = await read(wrap(model, extract_thinking(begins_inside=True)))
    assert kinds(seen.stream.message) == [("reasoning", "why"), ("text", "so")]


async def test_the_tag_is_anyones(read: Any) -> None:
    model = ScriptedModel(said("<reason>why</reason>so"))
    seen = await read(wrap(model, extract_thinking("reason")))
    assert kinds(seen.stream.message) == [("reasoning", "why"), ("text", "so")]


@pytest.mark.parametrize("tag", ["", "<think>", "a b"])
def test_a_tag_is_a_word(tag: str) -> None:
    with pytest.raises(ls.InvalidRequest):
        extract_thinking(tag)


async def test_only_the_first_block_is_looked_at(read: Any) -> None:
    second = (TextStart("1"), TextDelta("<think>b</think>c", "1"), TextEnd("1"))
    seen = await read(wrap(ScriptedModel(said("a", more=second)), extract_thinking()))
    assert kinds(seen.stream.message) == [("text", "a"), ("text", "<think>b</think>c")]


async def test_broken_stream_ends_the_thinking(read: Any) -> None:
    model = ScriptedModel(Turn(text="<think>why or why not", fault=Cut(after_events=4)))
    seen = await read(wrap(model, extract_thinking()))
    assert isinstance(seen.error, ls.ConnectionLost)
    assert seen.of(ReasoningEnd) == [ReasoningEnd("t1-thinking", True)] or seen.of(ReasoningEnd)[0].incomplete
    assert seen.error.partial.parts[0].part_kind == "reasoning"


async def test_thinking_ends_before_a_call(read: Any) -> None:
    model = ScriptedModel(Turn(text="<think>why</think>", calls=(Call("f", {"a": 1}),)))
    seen = await read(wrap(model, extract_thinking()))
    assert [part.part_kind for part in seen.stream.message.parts] == ["reasoning", "tool_call"]


async def test_metadata_of_the_block_is_kept(read: Any) -> None:
    events = (
        TextStart("0", {"v": {"a": 1}}),
        TextDelta("<think>why</think>so", "0", {"v": {"b": 2}}),
        TextEnd("0", False, {"v": {"c": 3}}),
        ls.Finish("stop"),
    )
    seen = await read(wrap(ScriptedModel(Turn(events=events)), extract_thinking()))
    assert seen.stream.message.parts[1].metadata == {"v": {"a": 1, "b": 2, "c": 3}}


TEXT = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</th", "ink>", "a", " ", "\n", "é"]), max_size=12
)


def split(text: str, cuts: list[int], **options: bool) -> list[tuple[str, str]]:
    splitter = TaggedText("think", **options)
    at, pieces = 0, []
    for cut in [*sorted(cuts), len(text)]:
        pieces += splitter.feed(text[at:cut])
        at = cut
    pieces += splitter.close()
    joined: list[tuple[str, str]] = []
    for kind, piece in pieces:
        assert (kind in ("open", "close")) == (piece == "")
        if joined and joined[-1][0] == kind and piece:
            joined[-1] = kind, joined[-1][1] + piece
        else:
            joined.append((kind, piece))
    return joined


@given(TEXT, st.data(), st.booleans(), st.booleans())
def test_any_cut_gives_equal_text(
    words: list[str], data: st.DataObject, anywhere: bool, inside: bool
) -> None:
    text = "".join(words)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = split(text, [], anywhere=anywhere, inside=inside)
    assert split(text, cuts, anywhere=anywhere, inside=inside) == whole
    assert split(text, list(range(len(text))), anywhere=anywhere, inside=inside) == whole
    written = {"open": "<think>", "close": "</think>"}
    again = "".join(written.get(kind, piece) for kind, piece in whole)
    again = again.removeprefix("<think>") if inside else again
    assert "".join(again.split()) == "".join(text.split())
    assert all(piece == piece.strip() for kind, piece in whole if kind == "inside")


@given(TEXT, st.data(), st.booleans(), st.integers(0, 12))
async def test_grammar_holds_at_each_cut_and_break(
    words: list[str], data: st.DataObject, anywhere: bool, broken: int
) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    turn = Turn(events=said(*pieces).events, fault=Cut(after_events=broken))
    model = wrap(ScriptedModel(turn), extract_thinking(anywhere=anywhere))
    events = [event async for event in model.events("Hi", errors="events")]
    assert check(events) == []


def test_it_is_linear_in_white_space() -> None:
    splitter = TaggedText("think")
    splitter.feed("<think>a")
    for _ in range(200_000):
        assert splitter.feed(" ") == []
    assert splitter.feed("b")[0].text == " " * 200_000 + "b"
