"""Repairs of a conversation turn by turn: as of the whole of it."""

from __future__ import annotations

import random

import pytest

from llmstream.chats import Message
from llmstream.chats.content import Text, ToolCall, ToolResult
from llmstream.request import Request
from llmstream.simulator import Call, Turn
from llmstream.streams.history import Growing, Repairs, repaired
from llmstream.testing import ScriptedModel


def words(warnings):
    return sorted(warning.message for warning in warnings)


def any_message(rng: random.Random) -> Message:
    ids = [f"c{i}" for i in range(3)]
    match rng.randrange(6):
        case 0:
            return Message.user("?")
        case 1:
            return Message.assistant()
        case 2 | 3:
            return Message.assistant(
                "x", *[ToolCall(rng.choice(ids), "f", "{}") for _ in range(rng.randrange(3))]
            )
        case _:
            results = [ToolResult(rng.choice(ids), "y", name="f") for _ in range(rng.randrange(3))]
            return Message("", "tool", (*results, Text("z")) if rng.random() < 0.2 else tuple(results))


@pytest.mark.parametrize("seed", range(200))
def test_turn_by_turn_is_as_all_at_once(seed):
    rng = random.Random(seed)
    repairs, messages = Repairs(), []
    for _ in range(8):
        messages += [any_message(rng) for _ in range(rng.randrange(4))]
        turned, warnings = repairs.repair(tuple(messages))
        whole, whole_warnings = repaired(messages)
        assert turned == whole
        assert words(warnings) == words(whole_warnings)


@pytest.mark.parametrize("seed", range(50))
def test_changes_of_earlier_messages_count(seed):
    rng = random.Random(seed)
    repairs, messages = Repairs(), [any_message(rng) for _ in range(6)]
    for _ in range(6):
        repairs.repair(messages)
        messages[rng.randrange(len(messages))] = any_message(rng)
        if rng.random() < 0.5:
            messages[rng.randrange(len(messages))].parts = ()
        if rng.random() < 0.3:
            messages.pop(rng.randrange(len(messages)))
        assert repairs.repair(messages)[0] == repaired(messages)[0]


def test_what_was_given_may_be_changed():
    repairs, messages = Repairs(), [Message.user("?")]
    repairs.repair(messages)[0].clear()
    assert repairs.repair(messages)[0] == messages


async def test_requests_know_repairs_of_their_run():
    from llmstream.agent import Agent

    def f() -> str:
        return "y"

    found = []

    class Noting(ScriptedModel):
        def call(self, request, options=None, *, started=None):
            found.append(request.messages)  # the requests that it keeps are repaired
            return super().call(request, options, started=started)

    model = Noting(Turn(calls=(Call("f", {}),)), Turn(calls=(Call("f", {}),)), "done")
    await Agent(model, tools=[f]).run("Go")
    assert all(isinstance(messages, Growing) for messages in found)
    assert len({id(messages.repairs) for messages in found}) == 1
    assert Request(model="m", messages=found[0]) == Request(model="m", messages=tuple(found[0]))


@pytest.mark.parametrize("seed", range(100))
def test_changes_of_the_last_messages(seed):
    """As an effect makes them that replaces the history."""
    rng = random.Random(seed)
    repairs, messages = Repairs(), []
    for _ in range(12):
        messages += [any_message(rng) for _ in range(rng.randrange(4))]
        turned, warnings = repairs.repair(messages)
        whole, whole_warnings = repaired(messages)
        assert turned == whole
        assert words(warnings) == words(whole_warnings)
        for at in range(1, min(4, len(messages) + 1)):
            if rng.random() < 0.5:
                messages[-at] = any_message(rng)


def test_changed_message_that_is_taken_out():
    """An equal one is in its place."""
    shared = [Message.assistant("x"), Message.user("a"), Message.user("b")]
    repairs = Repairs()
    repairs.repair(shared)
    first = shared[0]
    now = [Message.assistant("x"), Message.user("b")]
    first.parts = ()
    assert repairs.repair(now)[0] == now
