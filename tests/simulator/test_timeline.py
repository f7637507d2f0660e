"""A turn becomes a sentence with a moment for each event."""

from __future__ import annotations

import pytest

from llmstream import grammar
from llmstream.chats.message import Message
from llmstream.events import (
    ErrorEvent,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    StreamStart,
    TextDelta,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    Usage,
)
from llmstream.request import ProviderTool, Request, ToolSpec
from llmstream.simulator import Break, Call, Cut, Pace, Stall, Turn
from llmstream.simulator.timeline import estimated_tokens, timeline_of

ASKED = Request(model="m", messages=(Message.user("12345678"),))
FULL = Turn(reasoning="so so", text="one two\nthree ", calls=(Call("f", {"a": "x" * 20}), Call("g")))


def test_a_turn_is_a_sentence_in_words() -> None:
    events = [beat.event for beat in timeline_of(FULL, ASKED, number=3)]
    assert not grammar.check([StreamStart(), *events])
    assert [e.delta for e in events if isinstance(e, ReasoningDelta)] == ["so", " so"]
    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["one", " two", "\nthree", " "]
    assert len([e for e in events if isinstance(e, ToolInputDelta)]) == 4
    calls = [e for e in events if isinstance(e, ToolCall)]
    assert [(c.tool_name, c.input, c.tool_call_id) for c in calls] == [
        ("f", '{"a":"' + "x" * 20 + '"}', "call_3_0"),
        ("g", "{}", "call_3_1"),
    ]
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "tool-calls"


def test_thoughts_are_signed_or_encrypted() -> None:
    (end,) = [b.event for b in timeline_of(FULL, ASKED, number=3) if isinstance(b.event, ReasoningEnd)]
    signature = end.provider_metadata["anthropic"]["signature"]
    assert signature
    assert end.provider_metadata["bedrock"]["signature"] == signature
    assert end.provider_metadata["openai"]["encrypted_content"]


def test_first_call_is_signed_like_gemini() -> None:
    calls = [b.event for b in timeline_of(FULL, ASKED, number=3) if isinstance(b.event, ToolCall)]
    assert calls[0].provider_metadata["google"]["thought_signature"]
    assert calls[1].provider_metadata is None


@pytest.mark.parametrize(
    "tool",
    [ProviderTool("custom", "f"), ProviderTool("custom", options={"custom": {"name": "f"}})],
)
def test_custom_tool_calls_are_plain_text(tool: ProviderTool) -> None:
    turn = Turn(calls=(Call("g"), Call("f", "ls -la"), Call("f", "")))
    events = [b.event for b in timeline_of(turn, Request(model="m", tools=(tool,)))]
    told = {"openai": {"type": "custom_tool_call"}}
    assert [(e.input, e.provider_metadata) for e in events if isinstance(e, ToolCall)][1:] == [
        ("ls -la", told),
        ("", told),
    ]
    assert [e.provider_metadata for e in events if isinstance(e, ToolInputStart)] == [None, told, told]


def test_usage_is_counted_from_the_words() -> None:
    finish = timeline_of(Turn(reasoning="12345", text="1234"), ASKED)[-1].event
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(2, 3, 5, reasoning_tokens=2)
    with_tool = Request(model="m", tools=(ToolSpec("abcd", "efgh"),))
    finish = timeline_of(Turn(text=""), with_tool)[-1].event
    assert isinstance(finish, Finish)
    assert finish.usage.input_tokens == estimated_tokens("abcdefgh{}")
    finish = timeline_of(Turn(usage=Usage(1, 2)), ASKED)[-1].event
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(1, 2)


def test_string_arguments_are_sent_as_is() -> None:
    events = [b.event for b in timeline_of(Turn(calls=(Call("f", '{"a": '), Call("g", ""))), ASKED)]
    assert [e.input for e in events if isinstance(e, ToolCall)] == ['{"a": ', "{}"]


def test_pace_sets_the_moments() -> None:
    beats = timeline_of(Turn(text="a b c"), ASKED, pace=Pace(first_s=1.0, delta_s=0.25))
    assert [b.due_s for b in beats if isinstance(b.event, TextDelta)] == [1.0, 1.25, 1.5]
    assert beats[0].due_s == 1.0
    assert beats[-1].due_s == 1.5
    beats = timeline_of(Turn(text="a 1234567", pace=Pace(tokens_per_s=4)), ASKED, pace=Pace(first_s=9))
    assert [b.due_s for b in beats if isinstance(b.event, TextDelta)] == [0.0, 0.5]


@pytest.mark.parametrize("fault", [Cut(after_events=3), Stall(after_events=3)])
def test_a_fault_ends_the_events(fault: Cut | Stall) -> None:
    beats = timeline_of(Turn(text="a b c", fault=fault), ASKED)
    assert [type(b.event).__name__ for b in beats] == ["ResponseMetadata", "TextStart", "TextDelta"]


def test_an_error_inside_closes_what_is_open() -> None:
    beats = timeline_of(Turn(text="a b c", fault=Break(after_events=3, status=529, message="busy")), ASKED)
    events = [StreamStart(), *[b.event for b in beats]]
    assert not grammar.check(events)
    error = events[-2]
    assert isinstance(error, ErrorEvent)
    assert (error.error.code, error.error.message) == ("overloaded", "busy")


def test_exact_events_are_said_as_they_are() -> None:
    events = (StreamStart(), TextStart("7"), TextDelta("x", "7"))
    assert [b.event for b in timeline_of(Turn(events=events), ASKED)] == list(events[1:])
