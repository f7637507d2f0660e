"""Conversations are mended before they are sent: every call has one result, right behind it."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmstream as ls
from llmstream.chats import Image, Message, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import copy_messages
from llmstream.dialects.ollama import Ollama
from llmstream.events import OtherWarning, StreamStart
from llmstream.simulator import Simulator
from llmstream.streams.history import repaired

ASK = Message.user("How warm is it?")


def call(call_id: str, name: str = "weather") -> ToolCall:
    return ToolCall(call_id, name, "{}")


def result(call_id: str, content: str = "") -> ToolResult:
    return ToolResult(call_id, content or f"result of {call_id}")


def words(warnings: list[OtherWarning]) -> str:
    return "\n".join(warning.message for warning in warnings)


def test_sound_conversation_returns_itself() -> None:
    messages = [
        Message.system("Be brief."),
        ASK,
        Message.assistant(Reasoning("Hm."), call("a"), call("b")),
        Message.tool([result("a"), result("b")]),
        Message.assistant("Warm."),
        Message.user("And tomorrow?"),
    ]
    found, warnings = repaired(messages)
    assert all(new is old for new, old in zip(found, messages, strict=True))
    assert warnings == []


def test_call_without_result_gets_an_error() -> None:
    found, warnings = repaired(
        [ASK, Message.assistant(call("a"), call("b")), Message.tool([result("b")]), ASK]
    )
    first, second = found[2].tool_results
    assert (first.tool_call_id, first.is_error, first.name) == ("a", True, "weather")
    assert "No result" in first.content
    assert second == result("b")
    assert "call 'a' of weather had no result" in words(warnings)


def test_a_call_at_the_end_gets_one_too() -> None:
    found, _ = repaired([ASK, Message.assistant("Let me see.", call("a"))])
    assert [message.role for message in found] == ["user", "assistant", "tool"]


def test_results_follow_calls_in_call_order() -> None:
    late = Message.tool([result("c")])
    found, warnings = repaired(
        [ASK, Message.assistant(call("a"), call("b"), call("c")), Message.tool([result("b")]),
         Message.tool([result("a")]), Message.user("Well?"), late]
    )  # fmt: skip
    assert [message.role for message in found] == ["user", "assistant", "tool", "user"]
    assert [part.tool_call_id for part in found[2].tool_results] == ["a", "b", "c"]
    assert warnings == []


def test_results_move_out_of_user_messages() -> None:
    found, _ = repaired([Message.assistant(call("a")), Message.user(result("a"), "Go on.")])
    assert found[1:] == [Message.tool([result("a")]), Message.user("Go on.")]


def test_only_first_result_of_a_call_counts() -> None:
    found, warnings = repaired(
        [Message.assistant(call("a")), Message.tool([result("a", "one"), result("a", "two")])]
    )
    assert [part.content for part in found[1].tool_results] == ["one"]
    assert "a result of 'a' was left out" in words(warnings)


def test_result_without_earlier_call_dropped() -> None:
    found, warnings = repaired(
        [Message.tool([result("b")]), ASK, Message.assistant(call("b")), Message.tool([result("z")])]
    )
    assert [message.role for message in found] == ["user", "assistant", "tool"]
    assert found[2].tool_results[0].is_error
    assert "result of 'b'" in words(warnings)
    assert "result of 'z'" in words(warnings)


def test_id_shared_by_calls_is_disambiguated() -> None:
    found, warnings = repaired(
        [ASK, Message.assistant(call("a"), call("a")), Message.tool([result("a", "1"), result("a", "2")]),
         ASK, Message.assistant(call("a"), call("a_2")), Message.tool([result("a", "3"), result("a_2", "4")])]
    )  # fmt: skip
    calls = [part.id for message in found for part in message.tool_calls]
    results = [(part.tool_call_id, part.content) for message in found for part in message.tool_results]
    assert calls == [call_id for call_id, _ in results]
    assert len(set(calls)) == 4
    assert [content for _, content in results] == ["1", "2", "3", "4"]
    assert warnings == []


def test_vendor_executed_parts_stay_in_place() -> None:
    message = Message.assistant(
        ToolCall("s", "search", "{}", provider_executed=True),
        ToolResult("s", result=[], provider_executed=True),
        ToolCall("open", "search", "{}", provider_executed=True),
        "Found.",
    )
    assert repaired([ASK, message]) == ([ASK, message], [])


def test_empty_dropped_tool_messages_joined() -> None:
    found, _ = repaired(
        [Message.user(), ASK, Message.assistant(""), Message.assistant(),
         Message.assistant(call("a")), Message.tool([]), Message.tool([result("a")]),
         Message("", "tool", (Text("by the way"),)), Message.user("")]
    )  # fmt: skip
    assert [message.role for message in found] == ["user", "assistant", "tool", "user"]
    assert found[2].parts == (result("a"), Text("by the way"))


def test_text_with_metadata_is_not_empty() -> None:
    signed = Message.assistant(Text("", {"gemini": {"thought_signature": "x"}}))
    assert repaired([ASK, signed])[0] == [ASK, signed]


def test_who_sent_the_results_is_kept() -> None:
    sent = Message("runner", "tool", (result("b"), result("a")), {"took_s": 3})
    found, _ = repaired([ASK, Message.assistant(call("a"), call("b")), sent])
    assert (found[2].sender, found[2].metadata) == ("runner", {"took_s": 3})


PARTS = st.one_of(
    st.builds(Text, st.sampled_from(["", "Hi"])),
    st.builds(call, st.sampled_from("ab")),
    st.builds(result, st.sampled_from("abc")),
    st.just(Image(url="https://example.com/a.png")),
    st.just(ToolCall("a", "search", "{}", provider_executed=True)),
)
MESSAGES = st.lists(
    st.builds(
        lambda role, parts: Message("", role, tuple(parts)),
        st.sampled_from(["user", "assistant", "tool", "system"]),
        st.lists(PARTS, max_size=4),
    ),
    max_size=7,
)


@given(MESSAGES)
def test_each_call_has_its_result_behind_it(messages) -> None:
    """For any conversation."""
    before = copy.deepcopy(messages)
    found, _ = repaired(messages)
    assert messages == before
    assert repaired(found) == (found, [])
    for place, message in enumerate(found):
        calls = (
            [c.id for c in message.tool_calls if not c.provider_executed]
            if message.role == "assistant"
            else []
        )
        behind = found[place + 1].tool_results if place + 1 < len(found) else []
        if calls:
            assert [r.tool_call_id for r in behind] == calls
        assert message.parts
    assert len([r for m in found for r in m.tool_results]) == len(
        [c for m in found if m.role == "assistant" for c in m.tool_calls if not c.provider_executed]
    )


async def test_repairs_are_warnings_at_the_start() -> None:
    async with Simulator(dialects=[Ollama()]) as simulator:
        model = ls.Model("ollama:m", base_url=simulator.url)
        history = [ASK, Message.assistant(call("a")), Message.user("Well?")]
        stream = model.stream(history)
        first, *_ = [event async for event in stream]
    assert isinstance(first, StreamStart)
    assert "had no result" in words(first.warnings)
    assert [message.role for message in stream.messages()][:3] == ["user", "assistant", "user"]


async def test_empty_conversation_is_refused() -> None:
    with pytest.raises(ls.InvalidRequest, match="none of its messages has content"):
        await ls.Model("ollama:m", base_url="http://127.0.0.1:1").stream(Message.user()).collect()


def test_copy_of_marked_shares_nothing() -> None:
    """Nothing mutable is shared with the original."""
    message = Message("", "assistant", (Text("Hi"),), {"llmstream": {"provider": "acme", "id": "r1"}})
    (other,) = copy_messages([message])
    assert other == message
    other.set_meta("mine", 1)
    assert other.metadata is not None
    other.metadata["llmstream"]["id"] = "other"
    assert message.metadata == {"llmstream": {"provider": "acme", "id": "r1"}}
