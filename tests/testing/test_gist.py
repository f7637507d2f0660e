"""What is said stays, how it was cut goes."""

from __future__ import annotations

from llmstream.events import (
    File,
    Finish,
    ReasoningDelta,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputStart,
    Usage,
)
from llmstream.testing.gist import gist, with_numbered_ids


def test_fragments_are_joined_by_their_ids_and_empty_blocks_left_out() -> None:
    events = [
        ReasoningStart("r"),
        TextStart("a"),
        ReasoningDelta("hm", "r"),
        TextDelta("Hel", "a"),
        ReasoningDelta("!", "r"),
        TextDelta("lo", "a"),
        TextStart("b"),
        TextEnd("b"),
    ]
    assert gist(events) == [("reasoning", "hm!"), ("text", "Hello")]


def test_calls_files_and_the_end_are_said() -> None:
    events = [
        ToolCall("f", '{"a": 1}', "c"),
        ToolCall("f", "{broken", "d"),
        File("image/png", b"\x89"),
        Finish("stop", Usage(1, 2, 3, raw={"x": 1}), "end_turn"),
    ]
    assert gist(events) == [
        ("call", ("f", {"a": 1})),
        ("call", ("f", "{broken")),
        ("file", ("image/png", b"\x89")),
        ("finish", ("stop", 1, 2)),
    ]


def test_ids_become_numbers_but_not_those_of_responses() -> None:
    events = [ResponseMetadata("m", "x9"), TextStart("q"), ToolInputStart("f", "z"), ToolCall("f", "{}", "z")]
    assert with_numbered_ids(events) == [
        ResponseMetadata("m", "x9"),
        TextStart("#0"),
        ToolInputStart("f", "#1"),
        ToolCall("f", "{}", "#1"),
    ]
