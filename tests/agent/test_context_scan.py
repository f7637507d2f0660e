"""What effects and copies remember of a conversation: as if all of it were read anew."""

from __future__ import annotations

import random

from llmstream.agent.context import RunEffects, Scan, applied, cut_tool_results, sliding_window, token_budget
from llmstream.chats import Message
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import RepeatedCopies


def step(number: int, size: int = 150) -> list[Message]:
    call_id = f"c{number}"
    return [
        Message.assistant("Looking.", ToolCall(call_id, "look", "{}")),
        Message.tool([ToolResult(call_id, "x" * size, name="look")]),
    ]


async def test_a_run_of_effects_is_as_one_by_one():
    """Whatever is added, taken away or changed between the steps."""
    rng = random.Random(3)
    for effects in (
        [token_budget(120)],
        [sliding_window(2)],
        [cut_tool_results(100), token_budget(200)],
        [lambda messages: messages[-5:]],
    ):
        run, messages = RunEffects(effects), [Message.user("Go")]
        for number in range(40):
            match rng.randrange(6):
                case 0:
                    messages.append(Message.user(f"And {number}?"))
                case 1:
                    messages.insert(rng.randrange(len(messages)), Message.system(f"Rule {number}."))
                case 2 if len(messages) > 3:
                    del messages[rng.randrange(1, len(messages)) :]
                case _:
                    messages += step(number, rng.choice([10, 300]))
            assert await run.applied(messages) == await applied(messages, effects)


def test_a_value_is_found_once():
    found = []
    scan: Scan[int] = Scan(0, lambda before, message: found.append(message) or before + 1)
    messages = [Message.user("a"), Message.user("b")]
    assert scan.of(messages) == [0, 1, 2]
    assert scan.of([*messages, Message.user("c")]) == [0, 1, 2, 3]
    assert len(found) == 3
    assert scan.of([Message.user("d")]) == [0, 1]


def test_changed_copy_is_scanned_again():
    copies, message = RepeatedCopies(), Message.user("a").with_meta("k", {"n": 1})
    (first,) = copies.of([message])
    assert copies.of([message])[0] is first
    assert first == message
    assert first is not message
    first.metadata["k"]["n"] = 2
    (second,) = copies.of([message])
    assert (second, message.metadata) == (message, {"k": {"n": 1}})
    message.metadata["k"]["n"] = 3
    assert copies.of([message])[0].metadata == {"k": {"n": 3}}
