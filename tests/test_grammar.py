"""The grammar's checker and its guard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.errors import ErrorInfo
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    RetryNotice,
    Source,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.grammar import Guard, check

FAILED = ErrorInfo("connection-lost", "it broke", retryable=True)
TEXT: list[Event] = [TextStart("0"), TextDelta("Hel", "0"), TextDelta("lo", "0"), TextEnd("0")]
CALL: list[Event] = [
    ToolInputStart("f", "c1"),
    ToolInputDelta('{"a":', "c1"),
    ToolInputDelta("1}", "c1"),
    ToolInputEnd("c1"),
    ToolCall("f", '{"a":1}', "c1"),
]


def sentence(*events: Event, reason: str = "stop") -> list[Event]:
    return [StreamStart(), *events, Finish(reason)]  # type: ignore[arg-type]  # one of the reasons


def test_a_whole_sentence_breaks_no_law() -> None:
    reasoning: list[Event] = [ReasoningStart("r"), ReasoningDelta("hm", "r"), ReasoningEnd("r")]
    assert check(sentence(ResponseMetadata("m"), *reasoning, *TEXT, *CALL, reason="tool-calls")) == []


def test_kinds_may_interleave_by_id() -> None:
    events: list[Event] = [
        ReasoningStart("r"),
        TextStart("0"),
        ReasoningDelta("a", "r"),
        TextDelta("b", "0"),
        TextEnd("0"),
        ReasoningEnd("r"),
    ]
    assert check(sentence(*events)) == []


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "no events"),
        ([StreamStart()], "no finish"),
        ([Finish("stop")], "stream-start"),
        ([StreamStart(), StreamStart(), Finish("stop")], "stream-start"),
        ([StreamStart(), Finish("stop"), Finish("stop")], "after finish"),
        ([StreamStart(), Finish("stop"), Raw({})], "after finish"),
        (sentence(TextDelta("a", "0")), "not open"),
        (sentence(*TEXT, TextDelta("a", "0")), "already closed"),
        (sentence(*TEXT, TextEnd("0")), "already closed"),
        (sentence(*TEXT, *TEXT), "second time"),
        (sentence(TextStart("0"), ReasoningDelta("a", "0"), TextEnd("0")), "not open"),
        (sentence(TextStart("0")), "still open"),
        (sentence(TextStart("0"), TextEnd("0", incomplete=True)), "no error gives the reason"),
        (
            sentence(TextStart("0"), TextEnd("0", incomplete=True), ErrorEvent(FAILED)),
            "finish reason is stop",
        ),
        (sentence(TextStart("0"), *CALL[:-1], TextEnd("0"), CALL[-1]), "while text"),
        (sentence(*CALL[:3], CALL[4], CALL[3]), "before the end of its input"),
        (sentence(*CALL, CALL[-1]), "sent twice"),
        (sentence(*CALL[:-1], ToolCall("f", "{}", "c1")), "differs from its deltas"),
        (sentence(CALL[0], ToolInputEnd("c1"), ToolCall("f", "", "c1")), "differs from its deltas"),
        (
            sentence(CALL[0], ToolInputEnd("c1", incomplete=True), ToolCall("f", "{}", "c1")),
            "incomplete input",
        ),
        (sentence(ToolResult(1, "c", "f"), ToolResult(2, "c", "f")), "second result"),
    ],
)
def test_each_broken_law_is_named(events: list[Event], words: str) -> None:
    assert any(words in line for line in check(events)), check(events)


def test_something_that_is_no_event_is_named() -> None:
    assert any("not an event" in line for line in check([StreamStart(), "x", Finish("stop")]))  # type: ignore[list-item]


def test_call_cut_by_token_limit_no_error() -> None:
    cut: list[Event] = [*CALL[:2], ToolInputEnd("c1", incomplete=True)]
    assert check(sentence(*cut, reason="length")) == []
    assert check(sentence(*cut, reason="stop")) != []


def test_preliminary_results_may_repeat() -> None:
    assert check(sentence(ToolResult(1, "c", "f", preliminary=True), ToolResult(2, "c", "f"))) == []


def test_guard_passes_deltas_as_same_list() -> None:
    guard = Guard()
    guard.feed([TextStart("0")])
    batch: list[Event] = [TextDelta("a", "0"), TextDelta("b", "0")]
    assert guard.feed(batch) is batch


def test_guard_keeps_deltas_in_their_order() -> None:
    """Deltas between events of other kinds, and one whose block has to be opened."""
    guard = Guard()
    inner: list[Event] = [
        TextStart("0"),
        TextDelta("a", "0"),
        TextDelta("b", "0"),
        ReasoningStart("1"),
        ReasoningDelta("c", "1"),
        TextDelta("d", "0"),
        TextEnd("0"),
        ReasoningDelta("e", "1"),
        TextDelta("f", "9"),
        ReasoningDelta("g", "1"),
    ]
    passed = guard.feed(inner)
    assert passed == [*inner[:8], TextStart("9"), *inner[8:]]
    assert check([*guard.start(), *passed, *guard.close(Usage(), FAILED)]) == []


def test_the_guard_finishes_what_stops_early() -> None:
    guard = Guard()
    events = guard.start() + guard.feed([TextStart("0"), TextDelta("a", "0")])
    events += guard.close(Usage(output_tokens=1), FAILED)
    assert events[-3:] == [
        TextEnd("0", incomplete=True),
        ErrorEvent(FAILED),
        Finish("error", Usage(output_tokens=1)),
    ]
    assert check(events) == []
    assert guard.close(Usage(), FAILED) == []


def test_nothing_passes_after_finish() -> None:
    guard = Guard()
    guard.feed([Finish("stop")])
    assert guard.feed([TextStart("0")]) == []


def test_reopened_id_gets_its_own_name() -> None:
    guard = Guard()
    events = guard.start() + guard.feed([*TEXT, *TEXT, Finish("stop")])
    assert check(events) == []
    assert [e.id for e in events if isinstance(e, TextStart)] == ["0", "0.2"]


def test_second_call_of_id_keeps_its_input() -> None:
    guard = Guard()
    second: list[Event] = [CALL[0], ToolInputDelta("{}", "c1"), CALL[3], ToolCall("f", "{}", "c1")]
    events = guard.start() + guard.feed([*CALL, *second, Finish("tool-calls")])
    assert check(events) == []
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["c1", "c1.2"]


_ids = st.sampled_from(["0", "1", "c1"])
_any_event = st.one_of(
    st.builds(TextStart, _ids),
    st.builds(TextDelta, st.just("x"), _ids),
    st.builds(TextEnd, _ids, st.booleans()),
    st.builds(ReasoningStart, _ids),
    st.builds(ReasoningDelta, st.just("y"), _ids),
    st.builds(ReasoningEnd, _ids),
    st.builds(ToolInputStart, st.just("f"), _ids),
    st.builds(ToolInputDelta, st.just("{}"), _ids),
    st.builds(ToolInputEnd, _ids, st.booleans()),
    st.builds(StreamStart),
    st.builds(ErrorEvent, st.just(FAILED)),
    st.builds(Source, st.just("url"), st.just("s")),
    st.builds(Finish, st.sampled_from(["stop", "error"])),
)


@given(st.lists(_any_event, max_size=30), st.booleans())
def test_any_decoder_output_obeys_grammar(events: list[Event], fails: bool) -> None:
    guard = Guard()
    out = guard.start()
    for event in events:
        out += guard.feed([event])
    out += guard.close(Usage(), FAILED)
    broken = [line for line in check(out) if "incomplete" not in line and "broke off" not in line]
    assert broken == []


def test_retry_explains_broken_off_blocks() -> None:
    events: list[Event] = [
        StreamStart(),
        TextStart("0"),
        TextEnd("0", incomplete=True),
        RetryNotice("broke off", discard_step=0, attempt=1, wait_s=0.0),
        Finish("stop"),
    ]
    assert check(events) == []
    assert check([event for event in events if not isinstance(event, RetryNotice)]) != []


def test_retry_closes_blocks_forgets_errors() -> None:
    guard = Guard()
    error = ErrorEvent(ErrorInfo("overloaded", "busy", retryable=True))
    retry = RetryNotice("broke off", discard_step=0, attempt=1, wait_s=0.0)
    again: list[Event] = [TextStart("0"), TextDelta("b", "0"), Finish("stop")]
    events = guard.start() + guard.feed([TextStart("0"), TextDelta("a", "0"), error, retry, *again])
    assert check(events) == []
    assert TextEnd("0", incomplete=True) in events
    assert guard.errors == []


def test_guard_explains_broken_off_block() -> None:
    guard = Guard()
    events = guard.start() + guard.feed([ToolInputStart("f", "1"), Finish("stop")])
    assert check(events) == []
    assert events[-1] == Finish("error")
    assert guard.errors[0].code == "incomplete-stream"
    cut = Guard()
    assert check(cut.start() + cut.feed([ToolInputStart("f", "1"), Finish("length")])) == []
    assert cut.errors == []
