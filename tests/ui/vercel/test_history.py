"""What is stored of a run whose process died: all that its pages have seen, with a result for each call."""

from __future__ import annotations

from llmstream.chats import Message, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.content import outcome_mark
from llmstream.chats.ui_form import Card, cards_of
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
)
from llmstream.events import ToolCall as CallEvent
from llmstream.events import ToolResult as ResultEvent
from llmstream.ui.page_run import CORRECTED
from llmstream.ui.vercel.history import messages_of

LOST: list[Event] = [ErrorEvent(ErrorInfo("producer-lost", "gone", retryable=True)), Finish("error")]
ASKED = Message.user("Go")
CANCELLED = "The call was cancelled before it was done. It may have had effects."


def cancelled(call_id: str) -> ToolResult:
    return ToolResult(call_id, CANCELLED, True, "look", metadata=outcome_mark("cancelled"))


def test_steps_become_messages() -> None:
    events: list[Event] = [
        StreamStart(),
        StepStart(0),
        *(ReasoningStart("r"), ReasoningDelta("Hm.", "r"), ReasoningEnd("r")),
        CallEvent("look", "{}", "c1"),
        CallEvent("look", '{"a":1}', "c2"),
        ResultEvent({"seen": 1}, "c1", "look", preliminary=True),
        ResultEvent({"seen": 2}, "c1", "look"),
        ResultEvent("of a sub-agent", "c1/c9", "look"),
        StepStart(1),
        *(TextStart("t"), TextDelta("Half", "t"), TextEnd("t", incomplete=True)),
        *LOST,
    ]
    found = messages_of([ASKED], events)
    assert [message.role for message in found] == ["user", "assistant", "tool", "assistant"]
    assert found[1].parts == (
        Reasoning("Hm."),
        ToolCall("c1", "look", "{}"),
        ToolCall("c2", "look", '{"a":1}'),
    )
    assert found[2].tool_results == [ToolResult("c1", '{"seen":2}', name="look"), cancelled("c2")]
    assert isinstance(found[3].parts[0], Text)
    assert found[3].text == "Half"


def test_calls_of_sub_agents_are_in_no_message() -> None:
    """The page was asked about one, and the process died before it had stored that the run waits."""
    own = {"llmstream": {"agent": "payer", "parent_call": "c1"}}
    begun = {"type": "step-start", "step": 0}
    events: list[Event] = [
        StreamStart(),
        StepStart(0),
        CallEvent("payer", "{}", "c1"),
        ResultEvent(begun, "c1", "payer", preliminary=True, provider_metadata=own),
        CallEvent("pay", '{"euros":3}', "c1/d1"),
        ToolApprovalRequest("c1/d1", "a1"),
        *LOST,
    ]
    found = messages_of([ASKED], events)
    assert [message.role for message in found] == ["user", "assistant", "tool"]
    assert [call.id for call in found[1].tool_calls] == ["c1"]
    assert [result.tool_call_id for result in found[2].tool_results] == ["c1"]
    # It stays on the page, which shows that it was not done.
    assert cards_of(found[1]) == [Card("c1/d1", "pay", '{"euros":3}')]


def test_resumed_run_has_earlier_calls() -> None:
    """Its first results belong to a message from before it, beside a result that was there."""
    calls = [ToolCall(name, "look", "{}") for name in ("c1", "c2", "c3")]
    earlier = [ASKED, Message.assistant(*calls), Message.tool([ToolResult("c1", "old", name="look")])]
    found = messages_of(earlier, [StreamStart(), ResultEvent("new", "c2", "look"), *LOST])
    assert found[:2] == earlier[:2]
    assert found[2].tool_results == [
        ToolResult("c1", "old", name="look"),
        ToolResult("c2", "new", name="look"),
        cancelled("c3"),
    ]
    assert len(found) == 3


def test_edited_arguments_are_stored() -> None:
    """Also of a call whose id an earlier step used."""
    earlier = [ASKED, Message.assistant(ToolCall("c", "look", "{}"))]
    value = {"call_id": "1/c", "name": "look", "arguments": '{"a":2}'}
    events = [StreamStart(), Custom(CORRECTED, {"llmstream": value}), ResultEvent("new", "1/c", "look")]
    found = messages_of(earlier, [*events, *LOST])
    assert found[1] == Message.assistant(ToolCall("c", "look", '{"a":2}'))
    assert found[2:] == [Message.tool([ToolResult("c", "new", name="look")])]


def test_run_that_began_nothing_adds_nothing() -> None:
    assert messages_of([ASKED], []) == messages_of([ASKED], [StreamStart(), *LOST]) == [ASKED]


def test_result_of_a_repeated_id_is_kept() -> None:
    """A step before the one that waited used the id, so that the events have another."""
    call = Message.assistant(ToolCall("c", "look", "{}"))
    earlier = [ASKED, call, Message.tool([ToolResult("c", "old", name="look")]), call]
    found = messages_of(earlier, [StreamStart(), ResultEvent("new", "1/c", "look"), *LOST])
    assert found[4:] == [Message.tool([ToolResult("c", "new", name="look")])]
