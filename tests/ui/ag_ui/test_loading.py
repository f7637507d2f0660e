"""Conversations as the messages of a page that loads."""

from __future__ import annotations

from typing import Any

import pytest

import llmstream as ls
from llmstream.chats.content import Document, Image, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.events import Finish, StreamStart
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.request import ToolSpec
from llmstream.testing import Call, ScriptedModel, Turn
from llmstream.ui import ag_ui

SIGNED = {"acme": {"signature": "s"}}


COUNTED = [ToolCallEvent("look", f'{{"place":{place}}}', "call_0") for place in (1, 2, 3)]


def look(place: int) -> str:
    """Look."""
    return f"at {place}"


def read(messages: list[dict[str, Any]]) -> list[tuple[str, tuple[Any, ...]]]:
    asked = ag_ui.read({"threadId": "t", "runId": "r", "messages": messages})
    return [(message.role, message.parts) for message in asked.messages]


def test_every_part_comes_back() -> None:
    files = (Image(data=b"\x89PNG", media_type="image/png"), Document("https://a.example/b.pdf"))
    messages = [
        Message.user("See", *files),
        Message.assistant(
            Reasoning("Hm.", SIGNED),
            Text("Look", SIGNED),
            Text(" here."),
            ToolCall("c1", "pay", '{"euros":1}', metadata=SIGNED),
            ToolCall("c2", "search", '{"q":"x"}', True),
            ToolResult("c2", '{"n":1}', False, "search", (), {"n": 1}, True, SIGNED),
            Text("Then."),
            ToolCall("c3", "pay", '{"euros":2}'),
        ),
        Message.tool(
            [
                ToolResult("c1", "paid", name="pay", parts=(Image(data=b"x", media_type="image/png"),)),
                ToolResult("c3", "No money.", True, "pay", metadata={"llmstream": {"outcome": "denied"}}),
            ]
        ),
        Message.assistant("Done."),
        Message.user("Thanks"),
    ]
    assert read(ag_ui.dump(messages)) == [(message.role, message.parts) for message in messages]


def test_ids_of_the_page_stay() -> None:
    """The page shows the same messages, and not another copy of each."""
    page = [
        {"id": "u-1", "role": "user", "content": "Hi"},
        {"id": "r1-0-0", "role": "reasoning", "content": "Hm."},
        {
            "id": "r1-0-1",
            "role": "assistant",
            "content": "Look.",
            "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"id": "r1-c1-result", "role": "tool", "toolCallId": "c1", "content": "ok"},
        {"id": "r1-1-0", "role": "assistant", "content": "Done."},
    ]
    asked = ag_ui.read({"threadId": "t", "runId": "r2", "messages": page})
    assert ag_ui.dump(asked.messages) == page


def test_repeated_call_ids_stay_apart() -> None:
    turns = [
        (Message.assistant(ToolCall("c", "f", f'{{"n":{n}}}')), Message.tool([ToolResult("c", str(n))]))
        for n in (1, 2)
    ]
    (_, one, first), (_, two, second) = ([Message.user("Go"), *turn] for turn in turns)
    found = ag_ui.dump([Message.user("Go"), one, first, Message.user("Again"), two, second])
    calls = [message["toolCalls"][0] for message in found if "toolCalls" in message]
    assert [call["function"]["arguments"] for call in calls] == ['{"n":1}', '{"n":2}']
    results = [message for message in found if message["role"] == "tool"]
    assert [message["content"] for message in results] == ["1", "2"]
    assert [message["toolCallId"] for message in results] == [call["id"] for call in calls]
    assert_ids_differ(found)


def assert_ids_differ(found: list[dict[str, Any]]) -> None:
    """A client takes equal ids for one message, or for one call."""
    ids = [message["id"] for message in found]
    calls = [call["id"] for message in found for call in message.get("toolCalls", ())]
    assert (sorted(ids), sorted(calls)) == (sorted(set(ids)), sorted(set(calls)))


async def test_steps_repeat_ids_of_calls() -> None:
    """A server that counts from 0 in each response; the page that was there has the same ids."""
    turns = [Turn(events=(StreamStart(), call, Finish("tool-calls"))) for call in COUNTED]
    run = ls.Agent(ScriptedModel(*turns, "Done."), tools=[look]).stream("Go")
    writer = ag_ui.Writer("t", "r")
    async for event in run:
        writer.feed(event)
    found = ag_ui.dump(run.messages())
    calls = [call["id"] for message in found for call in message.get("toolCalls", ())]
    assert calls == ["call_0", "1/call_0", "2/call_0"]
    assert [message["content"] for message in found if message["role"] == "tool"] == ["at 1", "at 2", "at 3"]
    assert_ids_differ(found)
    live = [call["id"] for one in writer._out.transcript.messages for call in one.get("toolCalls", ())]
    assert live == calls


def test_repeated_message_ids_stay_apart() -> None:
    """Such as those of a message that a page sent twice; the first keeps its id."""
    ids = ["u", "r-0-0", "u", "r-0-0", "", "r-0-1"]
    roles = ["user", "assistant"] * 3
    texts = [str(number) for number in range(6)]
    messages = [
        Message("", role, (Text(text),), {"id": name})
        for name, role, text in zip(ids, roles, texts, strict=True)
    ]
    found = ag_ui.dump(messages)
    assert [message["content"] for message in found] == texts
    assert [message["id"] for message in found[:2]] == ["u", "r-0-0"]
    assert_ids_differ(found)
    assert ag_ui.dump(ag_ui.read({"threadId": "t", "runId": "r", "messages": found}).messages) == found


@pytest.mark.parametrize("earlier", [True, False], ids=["another turn", "an earlier step"])
async def test_waiting_call_with_a_repeated_id(earlier: bool) -> None:
    """The earlier call keeps its result, and the interrupt is about the call that waits."""
    first, second, _ = [Turn(events=(StreamStart(), call, Finish("tool-calls"))) for call in COUNTED]
    model = ScriptedModel(first, *(["Looked."] if earlier else []), second)
    agent = ls.Agent(model, tools=[ls.tool(look, needs_approval=lambda given: given["place"] == 2)])
    run = agent.stream("Go")
    await run.collect()
    if earlier:
        run = agent.stream([*run.messages(), Message.user("Again")])
        await run.collect()
    assert run.suspended is not None
    found = ag_ui.dump(run.messages(), run.suspended)
    assert_ids_differ(found)
    one, two = [call["id"] for message in found for call in message.get("toolCalls", ())]
    assert [message["toolCallId"] for message in found if message["role"] == "tool"] == [one]
    assert [interrupt["toolCallId"] for interrupt in ag_ui.interrupts(run.suspended)] == [two]


async def test_waiting_calls_have_no_results() -> None:
    def pay(euros: int) -> str:
        """Pay."""
        return f"{euros} paid"

    tools = [pay, ls.tool(pay, name="pay_much", needs_approval=True), ToolSpec("locate")]
    calls = (Call("pay", {"euros": 1}), Call("pay_much", {"euros": 9}), Call("locate"))
    agent = ls.Agent(ScriptedModel(Turn(calls=calls)), tools=tools, approval_ttl_s=60)
    run = agent.stream("Go")
    await run.collect()
    assert run.suspended is not None
    shown = ag_ui.dump(run.messages(), run.suspended)
    assert [message["content"] for message in shown if message["role"] == "tool"] == ["1 paid"]
    assert len(shown[1]["toolCalls"]) == 3
    (interrupt,) = ag_ui.interrupts(run.suspended)
    assert interrupt["toolCallId"] == shown[1]["toolCalls"][1]["id"]
    assert interrupt["message"] == "May pay_much run?"
    assert interrupt["expiresAt"].endswith("Z")


def test_system_messages_stay_at_the_server() -> None:
    assert ag_ui.dump([Message.system("Secret."), Message.user("Hi")]) == [
        {"id": "history-1", "role": "user", "content": "Hi"}
    ]


def test_unknown_role_is_named() -> None:
    with pytest.raises(InvalidRequest, match="no role 'critic'"):
        ag_ui.dump([Message("", "critic", (Text("Hm."),))])
