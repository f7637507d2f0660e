"""A conversation that goes out again: the same bytes, with only the new messages encoded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

import llmstream as ls
from llmstream.chats.content import Image, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_chat.messages import MessageWriter
from llmstream.request import Request
from llmstream.simulator import Call, Script, Simulator, Turn
from llmstream.streams.history import Growing, Repairs

PICTURE = Image(data=b"\x89PNG" + bytes(100_000), media_type="image/png")


def step(number: int) -> list[Message]:
    """A call and its result."""
    call = ToolCall(f"c{number}", "look", '{"x": 1}')
    return [Message.assistant(call), Message.tool((ToolResult(call.id, f"found {number}"),))]


def body(messages: Sequence[Message], repairs: Repairs | None = None, model: str = "m") -> bytes:
    """The encoded request; as part of a conversation with its repairs."""
    given = tuple(messages) if repairs is None else Growing.of(messages, repairs)
    return OpenAIChat().encode(Request(model=model, messages=given), provider="openai").http.body


def asked_before(messages: Sequence[Message], model: str = "m") -> Repairs:
    """The repairs of a conversation that went out twice."""
    repairs = Repairs()
    for _ in range(2):
        repairs.begin()
        body(messages, repairs, model)
    return repairs


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages that are encoded."""
    found: list[Message] = []
    encode = MessageWriter._message

    def spy(self: MessageWriter, message: Message, *, in_turn: bool) -> None:
        found.append(message)
        encode(self, message, in_turn=in_turn)

    monkeypatch.setattr(MessageWriter, "_message", spy)
    return found


def test_only_new_messages_are_encoded(written: list[Message]):
    chat = [Message.system("Be brief."), Message.user("Look.", PICTURE), *step(1)]
    repairs = asked_before(chat)
    written.clear()
    longer = [*chat, *step(2)]
    again = body(longer, repairs)
    assert written == longer[-2:]
    assert again == body(longer)


def test_results_are_put_in_call_order():
    calls = [ToolCall(name, "look", "{}") for name in ("a", "b")]
    results = tuple(ToolResult(call.id, call.id) for call in reversed(calls))
    chat = [Message.user("Look."), Message.assistant(*calls), Message.tool(results)]
    again = body(chat, asked_before(chat))
    sent = msgspec.json.decode(again)["messages"]
    assert [message["tool_call_id"] for message in sent[2:]] == ["a", "b"]
    assert again == body(chat)


def test_what_may_change_is_encoded_anew():
    marked = Text("Hi", {"openai": {}})
    chat = [Message.user(marked), Message.assistant("Yes?"), Message.user("Go on.")]
    repairs = asked_before(chat)
    marked.metadata["openai"]["cache_control"] = {"type": "ephemeral"}
    chat[1].parts = (Text("No."),)
    assert body(chat, repairs) == body(chat)
    assert b"ephemeral" in body(chat, repairs)


def test_another_model_gets_its_own_form():
    chat = [Message.system("Be brief."), Message.user("Hi")]
    repairs = asked_before(chat, "gpt-4o")
    assert body(chat, repairs, "gpt-5") == body(chat, model="gpt-5")
    assert b'"developer"' in body(chat, repairs, "gpt-5")


def test_forms_leave_with_their_messages():
    chat = [Message.user("Hi"), *(message for n in range(50) for message in step(n))]
    repairs = asked_before(chat)
    body(chat[:1], repairs)
    assert repairs.written is not None
    assert len(repairs.written._known) <= 1


async def test_steps_encode_what_they_add(written: list[Message]):
    turns = [*(Turn(calls=(Call("look", {"x": n}),)) for n in range(9)), Turn(text="Done.")]
    async with Simulator(Script(tuple(turns))) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k")

        def look(x: int) -> str:
            """Looks."""
            return f"found {x}"

        await ls.Agent(model, tools=[look]).run("Look nine times.")
        sent = [len(seen.request.messages) for seen in simulator.requests]
    assert sent == list(range(1, 20, 2))
    # The first request remembers nothing, because most conversations have no second one.
    assert len(written) == sum(sent[:2]) + 2 * len(sent[2:])
