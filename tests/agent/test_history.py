"""The part of a growing history in which every call has its result."""

from __future__ import annotations

import random

import pytest

from llmstream.agent.history import SettledPart, settled
from llmstream.chats import Message
from llmstream.chats.content import ToolCall, ToolResult
from tests.streams.test_repairs import any_message


def conversation() -> list[Message]:
    call = ToolCall("a", "f", "{}")
    return [Message.user("Go"), Message.assistant(call), Message.tool([ToolResult("a", "x", name="f")])]


def settled_conversation() -> tuple[SettledPart, list[Message]]:
    known, messages = SettledPart(), conversation()
    known.settle(messages, {})
    assert known.length(messages) == 3
    return known, messages


def test_new_calls_found_after_known_ones():
    known, messages = settled_conversation()
    call = ToolCall("a", "f", "{}")
    messages.append(Message.assistant(call))
    assert known.open_calls(messages) == [call]
    known.settle(messages, {"a": ToolResult("a", "y", name="f")})
    assert messages[-1].tool_results[0].content == "y"
    assert known.length(messages) == len(messages) == 5


@pytest.mark.parametrize("exchange", [True, False])
def test_changed_message_is_checked_again(exchange):
    known, messages = settled_conversation()
    if exchange:
        messages[2] = Message.user("Never mind")
    else:
        messages[2].parts = ()
    assert [call.id for call in known.open_calls(messages)] == ["a"]


def test_shortened_conversation_is_rechecked():
    known, messages = settled_conversation()
    del messages[2]
    assert [call.id for call in known.open_calls(messages)] == ["a"]


@pytest.mark.parametrize("seed", range(100))
def test_settled_part_after_changes(seed):
    """As an effect makes them that replaces the history."""
    rng = random.Random(seed)
    known, messages = SettledPart(), []
    for _ in range(10):
        messages += [any_message(rng) for _ in range(rng.randrange(4))]
        whole = settled(messages, {})
        known.settle(messages, {})
        assert messages == whole
        for at in range(1, min(4, len(messages) + 1)):
            if rng.random() < 0.5:
                messages[-at] = any_message(rng)
