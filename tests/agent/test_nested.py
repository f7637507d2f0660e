"""Agents within agents, and agents side by side in one chat."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.agent import NestedEvent, nested_event
from llmstream.events import (
    Finish,
    StepFinish,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.grammar import check
from llmstream.simulator import Call, Cut, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools import run_call


@ls.tool
async def look() -> str:
    """Looks."""
    return "seen"


def researcher(*turns: str | Turn) -> ls.Agent:
    return ls.Agent(ScriptedModel(*turns, model="small", repeat_last=True), name="researcher", tools=[look])


ASKS = Turn(calls=(Call("research", {"prompt": "Why?"}),), usage=ls.Usage(1, 1, 2))


async def test_sub_agent_events_are_identifiable() -> None:
    inner = researcher(Turn(calls=(Call("look"),)), "Because.")
    tool = inner.as_tool("research", "Finds things out.")
    assert list(tool.spec.input_schema["properties"]) == ["prompt"]
    run = ls.Agent(ScriptedModel(ASKS, "It is so."), tools=[tool]).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    nested = [found for found in map(nested_event, events) if found is not None]
    assert {(n.agent, n.parent_call) for n in nested} == {("researcher", run.messages()[1].tool_calls[0].id)}
    assert "".join(n.event.delta for n in nested if isinstance(n.event, TextDelta)) == "Because."
    assert [n.event.step for n in nested if isinstance(n.event, StepFinish)] == [0, 1]
    assert [e.result for e in events if isinstance(e, ToolResult) and not e.preliminary] == ["Because."]
    for event in events:
        assert ls.events.decode(ls.events.encode(event)) == event
        meta = getattr(event, "provider_metadata", None)
        assert (nested_event(event) is None) == (not meta or "agent" not in meta.get("llmstream", {}))


async def test_equal_call_ids_of_steps_stay_apart() -> None:
    """Their nested events too."""
    text = '{"prompt":"?"}'
    called = (
        ToolInputStart("research", "same"),
        ToolInputDelta(text, "same"),
        ToolInputEnd("same"),
        ToolCall("research", text, "same"),
        Finish("tool-calls"),
    )
    model = ScriptedModel(Turn(events=called), Turn(events=called), "Done.")
    run = ls.Agent(model, tools=[researcher("Because.").as_tool("research")]).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    inner = [e for e in events if nested_event(e) is not None]
    parents = [e.provider_metadata["llmstream"]["parent_call"] for e in inner]
    assert list(dict.fromkeys(parents)) == ["same", "1/same"]
    assert parents == [e.tool_call_id for e in inner]


async def test_the_tokens_of_a_sub_agent_count() -> None:
    inner = researcher(Turn(text="Because.", usage=ls.Usage(5, 5, 10)))
    last = Turn(text="So.", usage=ls.Usage(1, 1, 2))
    run = ls.Agent(ScriptedModel(ASKS, last), tools=[inner.as_tool("research")]).stream("Go")
    await run.collect()
    assert run.total_usage == ls.Usage(7, 7, 14)
    assert run.usage_by_model["scripted:small"] == ls.Usage(5, 5, 10)


async def test_parallel_sub_agents_obey_grammar() -> None:
    """Nested ones too."""
    innermost = researcher("Deep.").as_tool("research")
    middle = ls.Agent(ScriptedModel(ASKS, "Middle."), name="middle", tools=[innermost]).as_tool()
    turn = Turn(calls=(Call("middle", {"prompt": "a"}), Call("middle", {"prompt": "b"})))
    run = ls.Agent(ScriptedModel(turn, "Top."), tools=[middle]).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    found = [nested_event(e) for e in events]
    deeper = [nested_event(n.event) for n in found if n is not None]
    assert {n.agent for n in deeper if n is not None} == {"researcher"}
    assert all(isinstance(n, NestedEvent | None) for n in deeper)
    assert run.text == "Top."


async def test_failing_sub_agent_is_a_failed_call() -> None:
    inner = ls.Agent(ScriptedModel(Turn(text="x", fault=Cut(after_events=2))), name="r")
    turn = Turn(calls=(Call("r", {"prompt": "?"}),))
    run = ls.Agent(ScriptedModel(turn, "Sorry."), tools=[inner.as_tool()]).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    assert str(run.statuses[0].error).startswith("The agent r failed: ")
    assert run.text == "Sorry."


async def test_missing_decision_named_in_result() -> None:
    """The sub-agent needs approval where nobody can give it."""
    guarded = ls.tool(name="act", needs_approval=True)(look.function)
    inner = ls.Agent(ScriptedModel(Turn(calls=(Call("act"),))), name="r", tools=[guarded])
    status = await run_call(ls.chats.ToolCall("a", "r", '{"prompt":"?"}'), [inner.as_tool()])
    assert "decision about act({})" in status.result.content


async def test_sub_agent_gets_context_and_deadline() -> None:
    seen: list[ls.ToolContext] = []

    @ls.tool
    async def note(context: ls.ToolContext) -> str:
        seen.append(context)
        return "noted"

    inner = ls.Agent(ScriptedModel(Turn(calls=(Call("note"),)), "Done."), name="r", tools=[note])
    turn = Turn(calls=(Call("r", {"prompt": "?"}),))
    outer = ls.Agent(ScriptedModel(turn, "Done."), tools=[inner.as_tool()], deadlines=ls.Deadlines(total_s=9))
    await outer.stream("Go", deps="app").collect()
    assert seen[0].deps == "app"
    assert 0 < (seen[0].remaining_s or 0) <= 9


def test_agent_as_tool_needs_a_name() -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.Agent("sim:demo").as_tool()


async def test_agents_take_turns_in_one_chat() -> None:  # seed 004, multi-agent orchestration
    chat = ls.Chat(
        ls.Message.new_text("", ls.Role.SYSTEM, "Collaborative problem-solving session."),
        ls.Message.new_text("user", ls.Role.USER, "Write a summary of Go's concurrency model."),
    )
    models = {name: ScriptedModel(f"I am the {name}.") for name in ("researcher", "critic", "writer")}
    for name, model in models.items():
        said = await ls.Agent(model, name=name, instructions=f"Be the {name}.").respond(chat)
        assert said == chat.last()
    assert [(m.sender, m.role) for m in chat] == [
        ("", "system"),
        ("user", "user"),
        *[(name, "assistant") for name in models],
    ]
    assert [m.text for m in chat.by_sender("critic")] == ["I am the critic."]
    asked = models["writer"].requests[0].messages
    assert asked[-1].role == "user"
    assert [m.text for m in asked[-2:]] == [
        "researcher: I am the researcher.",
        "critic: I am the critic.",
    ]


async def test_agent_keeps_its_tools_out_of_chat() -> None:
    """It recognises its own messages."""
    chat = ls.Chat(ls.Message.user("Go"))
    model = ScriptedModel(Turn(calls=(Call("look"),)), "One.", "Two.")
    agent = ls.Agent(model, name="a", tools=[look])
    await agent.respond(chat)
    chat.append(ls.Message.user("Again"))
    await agent.respond(chat)
    assert [m.text for m in chat] == ["Go", "One.", "Again", "Two."]
    assert [m.role for m in model.requests[-1].messages] == ["user", "assistant", "user"]


async def test_nameless_agent_cannot_respond() -> None:
    with pytest.raises(ls.InvalidRequest):
        await ls.Agent("sim:demo").respond(ls.Chat(ls.Message.user("Hi")))


@pytest.mark.parametrize("spec", ["sim:demo", "sim-anthropic:demo", "sim-ollama:demo"])
async def test_chat_of_agents_fits_every_wire(spec: str) -> None:
    chat = ls.Chat(ls.Message.system("Together."), ls.Message.user("Go"))
    for name in ("a", "b", "a"):
        await ls.Agent(spec, name=name, tools=[look], instructions="Be brief.").respond(chat)
    assert [m.sender for m in chat] == ["", "", "a", "b", "a"]
