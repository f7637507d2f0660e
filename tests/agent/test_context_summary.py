"""A summary stands in place of the older part; it is asked for once, and its tokens count."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.agent.context import applied, approximate_tokens, summarise
from llmstream.chats import Message, Role, ToolCall, ToolResult
from llmstream.simulator import Call, Refuse, Turn
from llmstream.testing import ScriptedModel


def talk(turns: int) -> list[Message]:
    said = [Message.system("Be brief.")]
    for turn in range(turns):
        said += [
            Message.user(f"question {turn}"),
            Message.assistant(ToolCall(f"c{turn}", "look", "{}")),
            Message.tool([ToolResult(f"c{turn}", "x" * 400, name="look")]),
            Message.assistant(f"answer {turn}"),
        ]
    return said


SPENT = ls.Usage(100, 10, 110)


def writer() -> ScriptedModel:
    return ScriptedModel(
        Turn(text="They looked.", usage=SPENT), Turn(text="They looked again.", usage=SPENT), model="writer"
    )


async def test_a_short_conversation_is_left_alone() -> None:
    model = writer()
    assert await applied(talk(2), [summarise(model, when_tokens_over=10_000)]) == talk(2)
    assert model.requests == []


async def test_the_older_turns_become_a_summary() -> None:
    model = writer()
    after = await applied(talk(5), [summarise(model, when_tokens_over=300, keep_turns=2)])
    assert after[0].text == "Be brief."
    assert "They looked." in after[1].text
    assert after[2:] == talk(5)[13:]
    (request,) = model.requests
    asked = request.messages[-1].text
    assert "question 2" in asked
    assert "question 3" not in asked
    assert "[calls look with {}]" in asked


async def test_summary_is_cached_and_extended() -> None:
    model = writer()
    effect = summarise(model, when_tokens_over=500, keep_turns=2)
    first = await applied(talk(5), [effect])
    assert await applied(talk(5), [effect]) == first
    await applied([*talk(5), Message.user("short")], [effect])
    assert len(model.requests) == 1
    after = await applied(talk(8), [effect])
    assert len(model.requests) == 2
    assert "They looked." in model.requests[1].messages[-1].text
    assert "question 0" not in model.requests[1].messages[-1].text
    assert [m.role for m in after[:3]] == [Role.SYSTEM, Role.USER, Role.USER]
    assert sum(map(approximate_tokens, after)) <= 500


@ls.tool
def look() -> str:
    """Looks."""
    return "seen " * 200


@pytest.mark.parametrize("replace", [False, True])
async def test_one_long_turn_is_summarised_by_step(replace: bool) -> None:
    """The summary's usage counts in the run."""
    asked = Turn(calls=(Call("look"),), usage=ls.Usage(1, 1, 2))
    model = ScriptedModel(asked, asked, asked, Turn(text="Done.", usage=ls.Usage(1, 1, 2)))
    scribe = writer()
    effect = summarise(scribe, when_tokens_over=600, replace=replace)
    run = ls.Agent(model, tools=[look], context_effects=[effect]).stream("Go on looking.")
    await run.collect()
    assert run.usage_by_model["scripted:writer"].input_tokens == 100
    shown = model.requests[-1].messages
    assert [m.role for m in shown] == ["user", "user", "assistant", "tool"]
    assert shown[0].text == "Go on looking."
    assert len(run.messages()) == (5 if replace else 8)


async def test_failing_summary_ends_the_run() -> None:
    broken = ScriptedModel(Turn(fault=Refuse(status=500)))
    effect = summarise(broken, when_tokens_over=10, keep_turns=1)
    run = ls.Agent(ScriptedModel("Yes."), context_effects=[effect]).stream([*talk(3), Message.user("And?")])
    with pytest.raises(ls.ServerError):
        await run.collect()
    assert run.error is not None
    assert len(run.messages()) == 14


async def test_an_empty_summary_changes_nothing() -> None:
    empty = ScriptedModel(Turn(text=""))
    assert await applied(talk(3), [summarise(empty, when_tokens_over=10, keep_turns=1)]) == talk(3)
