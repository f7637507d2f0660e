"""Events as AG-UI: what is in which field, and what ends a run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest

import llmstream as ls
from llmstream import serve
from llmstream.agent.nested import Nested, as_result
from llmstream.chats.content import ToolCall as CallPart
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    RetryNotice,
    StepFinish,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.ui import ag_ui
from llmstream.ui.ag_ui.agent_events import _WRITE as OF_AGENTS
from llmstream.ui.ag_ui.messages import _WRITE as OF_MESSAGES

TEXT = (TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"))
CALL = ToolCall("pay", '{"euros":3}', "c1")
ASKED = ToolApprovalRequest("c1", "a1")


def written(*events: Event, **options: Any) -> list[dict[str, Any]]:
    writer = ag_ui.Writer("t1", "r1", **options)
    data = b"".join([writer.feed(event) for event in (StreamStart(), *events)]) + writer.close()
    assert b"\r" not in data
    *frames, rest = data.decode().split("\n\n")
    assert rest == ""
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def kinds(*events: Event, **options: Any) -> list[str]:
    return [event["type"] for event in written(*events, **options)][1:-1]


def named(name: str, *events: Event, **options: Any) -> Any:
    (found,) = [event["value"] for event in written(*events, **options) if event.get("name") == name]
    return found


def test_every_event_of_the_union_is_handled() -> None:
    of_the_run = {StreamStart, Finish}
    assert set(get_args(Event)) == OF_AGENTS.keys() | OF_MESSAGES.keys() | of_the_run


def test_run_names_thread_run_and_version() -> None:
    started, *_, ended = written(*TEXT, Finish("stop"), parent_run_id="r0")
    assert started == {
        "type": "RUN_STARTED",
        "threadId": "t1",
        "runId": "r1",
        "protocolVersion": "1.0",
        "parentRunId": "r0",
    }
    assert (ended["threadId"], ended["runId"]) == ("t1", "r1")
    assert ended["outcome"] == {"type": "success"}


def test_touching_texts_are_one_message() -> None:
    """Vendors begin a block for each citation; the page would show a bubble for each."""
    cited = {"anthropic": {"citations": [1]}}
    more = (TextStart("1"), TextDelta("you", "1"), TextEnd("1", False, cited))
    assert kinds(*TEXT, *more, Finish("stop")) == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "REASONING_ENCRYPTED_VALUE",
        "TEXT_MESSAGE_END",
    ]


def test_text_behind_a_call_is_a_new_message() -> None:
    more = (TextStart("1"), TextDelta("So.", "1"), TextEnd("1"))
    events = written(*TEXT, CALL, ToolResult("ok", "c1", "pay"), *more, Finish("stop"))
    starts = [event["messageId"] for event in events if event["type"] == "TEXT_MESSAGE_START"]
    assert starts == ["r1-0-0", "r1-0-1"]
    (call,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert call["parentMessageId"] == "r1-0-0"


def test_call_without_deltas_has_its_input() -> None:
    events = written(CALL, Finish("tool-calls"))
    assert [event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS"] == ['{"euros":3}']
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}


def test_call_the_provider_ran_is_no_pending() -> None:
    call = ToolCall("search", "{}", "c1", provider_executed=True)
    events = written(call, Finish("tool-calls"))
    assert events[-1]["outcome"] == {"type": "success"}


CUT = (ToolInputStart("pay", "c1"), ToolInputDelta('{"eu', "c1"), ToolInputEnd("c1", incomplete=True))


def test_cut_call_stays_open_in_a_failed_run() -> None:
    events = kinds(*CUT, ErrorEvent(ErrorInfo("connection-lost", "", retryable=True)), Finish("error"))
    assert "TOOL_CALL_END" not in events
    assert "TOOL_CALL_RESULT" not in events


def test_cut_call_gets_a_result_otherwise() -> None:
    """A call without one is a call that the page would run."""
    events = written(*CUT, Finish("length"))
    assert [event["type"] for event in events[-3:]] == ["TOOL_CALL_END", "TOOL_CALL_RESULT", "RUN_FINISHED"]
    assert events[-2]["metadata"] == {"llmstream": {"isError": True, "incomplete": True}}
    assert events[-1]["outcome"] == {"type": "success"}


def test_decided_call_is_no_interrupt() -> None:
    events = written(CALL, ASKED, ToolResult("3 paid", "c1", "pay"), Finish("stop"))
    assert events[-1]["outcome"] == {"type": "success"}


def test_interrupt_shows_what_will_run() -> None:
    changed = ToolApprovalRequest("c1", "a1", {"llmstream": {"tool_name": "pay", "input": '{"euros":2}'}})
    (interrupt,) = written(CALL, changed, Finish("tool-calls"))[-1]["outcome"]["interrupts"]
    assert interrupt["message"] == 'May pay run with {"euros":2}?'
    assert interrupt["metadata"]["llmstream"]["input"] == '{"euros":2}'


def test_older_client_has_interrupts_twice() -> None:
    """Releases up to 0.0.53 drop the outcome, newer ones need it; they refuse calls that a success names."""
    options = {"protocol_version": None}
    (interrupt,) = named("llmstream.interrupts", CALL, ASKED, Finish("tool-calls"), **options)
    assert interrupt["id"] == "a1"
    ended = written(CALL, ASKED, Finish("tool-calls"), **options)[-1]
    assert ended["outcome"] == {"type": "interrupt", "interrupts": [interrupt]}
    assert "outcome" not in written(CALL, Finish("tool-calls"), **options)[-1]


def test_error_before_more_events_is_custom() -> None:
    defect = ErrorEvent(ErrorInfo("decode-error", "at 10.0.0.7", retryable=False))
    shown = named("llmstream.error", defect, *TEXT, Finish("stop"))
    assert shown["code"] == "decode-error"
    assert "10.0.0.7" not in str(shown)


def test_error_of_the_whole_run_is_run_error() -> None:
    info = ErrorInfo("rate-limited", "at 10.0.0.7", retryable=True, retry_after_s=2.0)
    *_, ended = written(*TEXT, ErrorEvent(info), Finish("error", Usage(1, 2, 3)))
    assert ended["type"] == "RUN_ERROR"
    assert ended["code"] == "rate-limited"
    assert ended["message"] == "The model is busy. Try again in 2 s."
    assert ended["usage"] == [{"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}]
    assert ended["metadata"]["llmstream"] == {
        "finishReason": "error",
        "retryable": True,
        "retryAfterS": 2.0,
    }


def test_source_without_a_finish_is_an_error() -> None:
    *_, ended = written(*TEXT)
    assert (ended["type"], ended["code"]) == ("RUN_ERROR", "incomplete-stream")


def test_nothing_follows_the_end() -> None:
    writer = ag_ui.Writer("t1", "r1")
    assert writer.feed(Finish("stop")).count(b"RUN_FINISHED") == 1
    assert writer.feed(TextStart("0")) + writer.close() == b""


def test_stopped_run_is_cancelled() -> None:
    stopped = ErrorEvent(ErrorInfo("stopped", "on request", retryable=False))
    *_, ended = written(*TEXT, stopped, Finish("error"))
    assert ended["outcome"] == {"type": "cancelled"}
    *_, ended = written(*TEXT, stopped, Finish("error"), protocol_version=None)
    assert ended["type"] == "RUN_ERROR"


@pytest.mark.parametrize(("protocol_version", "status"), [("1.0", 200), (None, 502)])
async def test_stop_before_the_first_content(protocol_version: str | None, status: int) -> None:
    """It is no failure: the client gets the outcome, if it knows it, and no exception."""

    async def stopped() -> AsyncIterator[Event]:
        yield StreamStart()
        yield ErrorEvent(ErrorInfo("stopped", "on request", retryable=False))
        yield Finish("error")

    body = serve.Body(stopped(), ag_ui.Writer("t1", "r1", protocol_version=protocol_version))
    data = b"".join([chunk async for chunk in body])
    assert body.status == status
    assert (b'"outcome":{"type":"cancelled"}' in data) == (status == 200)


def test_usage_is_by_model_with_the_rest() -> None:
    """The last step failed: its tokens are in the total alone."""
    first, second = ResponseMetadata("small"), ResponseMetadata("large")
    steps = (StepStart(0), first, StepFinish(0, "stop", Usage(1, 1, 2)), StepStart(1), second)
    *_, ended = written(*steps, Finish("error", Usage(11, 3, 14)))
    assert ended["usage"] == [
        {"model": "small", "inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        {"model": "large", "inputTokens": 10, "outputTokens": 2, "totalTokens": 12},
    ]


def test_resumed_run_counts_its_own_steps() -> None:
    """The total has the tokens of the run before it, which the page has counted."""
    steps = (StepStart(1), ResponseMetadata("m"), StepFinish(1, "stop", Usage(1, 1, 2)))
    *_, ended = written(ToolResult("ok", "c0", "pay"), *steps, Finish("stop", Usage(9, 9, 18)))
    assert ended["usage"] == [{"model": "m", "inputTokens": 1, "outputTokens": 1, "totalTokens": 2}]


def test_reasoning_can_be_left_out() -> None:
    thought = (ReasoningStart("r"), ReasoningDelta("Hm.", "r"), ReasoningEnd("r"))
    assert kinds(*thought, Finish("stop"), reasoning=False) == []
    assert kinds(*thought, Finish("stop"))[0] == "REASONING_START"


def test_raw_events_are_written_on_request() -> None:
    assert kinds(Raw({"a": 1}), Finish("stop")) == []
    assert kinds(Raw({"a": 1}), Finish("stop"), raw=True) == ["RAW"]


def test_large_file_is_left_out_with_a_note() -> None:
    """Its parser ends at a frame of more than 10 MB."""
    large = File("image/png", bytes(8 * 1024 * 1024))
    assert "file_url" in named("llmstream.file", large, Finish("stop"))["omitted"]
    url = "https://files.example/1"
    assert named("llmstream.file", large, Finish("stop"), file_url=lambda file: url)["url"] == url


def test_custom_parts_of_vendors_are_custom() -> None:
    part = Custom("acme.thing", {"acme": {"a": 1}})
    assert named("llmstream.custom", part, Finish("stop")) == {
        "kind": "acme.thing",
        "providerMetadata": {"acme": {"a": 1}},
    }


def test_events_of_the_application_pass() -> None:
    own = (ag_ui.custom("ping", 1), ag_ui.activity("p", "PLAN", {"steps": []}), ag_ui.state(None))
    events = written(*own, Finish("stop"))[1:-1]
    assert events == [
        {"type": "CUSTOM", "name": "ping", "value": 1},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "p", "activityType": "PLAN", "content": {"steps": []}},
        {"type": "STATE_SNAPSHOT", "snapshot": None},
    ]


def test_retry_without_history_is_refused() -> None:
    """The snapshot would remove what the page had before the run."""
    writer = ag_ui.Writer("t1", "r1")
    for event in (StreamStart(), *TEXT):
        writer.feed(event)
    with pytest.raises(ls.errors.Unsupported, match=r"RunInput\.writer"):
        writer.feed(RetryNotice("broke", 0, 1, 0.0))


def test_snapshot_has_no_null_of_the_page() -> None:
    """Some pages write every field; the client refuses null, and a message without an id."""
    function = {"name": "f", "arguments": "{}"}
    call = {"id": "c", "type": "function", "function": function}
    page = [
        {"id": "m1", "role": "assistant", "content": None, "toolCalls": [{**call, "metadata": None}]},
        {"id": None, "role": "user", "content": "Hi"},
    ]
    events = written(*TEXT, RetryNotice("broke", 0, 1, 0.0), Finish("stop"), messages=page)
    (snapshot,) = [event for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert snapshot["messages"] == [{"id": "m1", "role": "assistant", "toolCalls": [call]}]


def test_retry_before_any_text_takes_nothing() -> None:
    assert kinds(RetryNotice("broke at 10.0.0.7", 0, 1, 0.5), *TEXT, Finish("stop"))[0] == "CUSTOM"
    shown = named("llmstream.retry", RetryNotice("broke at 10.0.0.7", 0, 1, 0.5), Finish("stop"))
    assert shown == {"attempt": 1, "waitS": 0.5}


def test_ids_have_to_be_texts() -> None:
    with pytest.raises(ls.InvalidRequest, match="run_id"):
        ag_ui.Writer("t1", "")


def within(call_id: str, event: Event) -> ToolResult:
    """An event of the sub-agent that a call runs."""
    return as_result(Nested("writer", event), CallPart(call_id, "writer", "{}"))


def test_retry_takes_back_sub_agents() -> None:
    """One that has ended, and one that runs with another below it; the page's own messages stay."""
    user = {"id": "u1", "role": "user", "content": "Hi"}
    writer = ag_ui.Writer("t1", "r1", messages=[user])
    inner = ToolCall("writer", "{}", "c1")
    below = as_result(Nested("reader", TextStart("9")), CallPart("c1", "writer", "{}"))
    discarded: tuple[Event, ...] = (
        StreamStart(),
        StepStart(0),
        *TEXT,
        ToolCall("writer", "{}", "a"),
        *[within("a", event) for event in TEXT],
        ToolResult("Written.", "a", "writer"),
        ToolCall("writer", "{}", "b"),
        within("b", inner),
        within("b", below),
        within("b", as_result(Nested("reader", TextEnd("9")), CallPart("c1", "writer", "{}"))),
        RetryNotice("broke", 0, 1, 0.0),
    )
    for event in discarded:
        written_last = writer.feed(event)
    ends = [json.loads(frame[6:]) for frame in written_last.decode().split("\n\n")[:-1]]
    assert [event["type"] for event in ends if event["type"].startswith("SUBAGENT")] == ["SUBAGENT_ERROR"] * 2
    assert ends[-1] == {"type": "MESSAGES_SNAPSHOT", "messages": [user]}
    assert writer.messages == [user]
    late: tuple[Event, ...] = (
        within("b", TextStart("1")),
        ToolResult({"done": 1}, "b", "writer", preliminary=True),
        ToolResult("Superseded.", "b", "writer", is_error=True),
    )
    assert b"".join([writer.feed(event) for event in late]) == b""
    assert b"TOOL_CALL_START" in writer.feed(ToolCall("writer", "{}", "b"))  # its id is free again
    assert b"TOOL_CALL_RESULT" in writer.feed(ToolResult("Written.", "b", "writer"))


def test_invalid_call_is_marked() -> None:
    events = written(ToolCall("pay", "{", "c1", invalid=True), Finish("stop"))
    (ended,) = [event for event in events if event["type"] == "TOOL_CALL_END"]
    assert ended["metadata"] == {"llmstream": {"invalid": True}}


def test_metadata_of_fragments_is_not_lost() -> None:
    signed = {"acme": {"s": 1}}
    thought = (ReasoningStart("r"), ReasoningDelta("Hm.", "r", signed), ReasoningEnd("r"))
    text = (TextStart("0"), TextDelta("Hi", "0", signed), TextEnd("0"))
    events = written(*thought, *text, Finish("stop"))
    packed = [event["encryptedValue"] for event in events if event["type"] == "REASONING_ENCRYPTED_VALUE"]
    assert [json.loads(value)["llmstream"] for value in packed] == [signed, [[2, signed]]]
