"""`Agent.run` gives an answer, or an error that says why there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream import events as ev
from llmstream.agent import (
    Again,
    Hooks,
    Rewrite,
    RunState,
    Stop,
    cost_over,
    elapsed_over,
    no_progress,
    step_count,
    tokens_over,
    tool_called,
    tool_calls_over,
)
from llmstream.chats.content import File
from llmstream.testing import Call, Refuse, ScriptedModel, Turn

LOOKS = Turn(text="Let me look.", calls=(Call("look"),))


class Point(msgspec.Struct):
    x: int


async def look() -> str:
    """Look."""
    return "seen"


# -- typed answers


async def test_run_gives_the_value() -> None:
    assert await ls.Agent(ScriptedModel('{"x": 1}'), output=Point).run("Go") == Point(1)


async def test_run_has_a_wrong_answer_repaired() -> None:
    model = ScriptedModel('{"x": "one"}', '{"x": 1}')
    assert await ls.Agent(model, output=Point).run("Go") == Point(1)
    assert "Expected `int`" in model.requests[1].messages[-1].text


async def test_run_raises_what_repair_did_not_help() -> None:
    model = ScriptedModel("no", "nor this")
    with pytest.raises(ls.InvalidOutput) as caught:
        await ls.Agent(model, output=Point).run("Go")
    assert len(model.requests) == 2
    assert caught.value.partial.text == "nor this"
    assert caught.value.usage is not None


async def test_structured_sets_the_run_repairs() -> None:
    model = ScriptedModel("no", "no", '{"x": 2}')
    assert await ls.Agent(model, output=ls.Output(Point, repair=2)).run("Go") == Point(2)
    model = ScriptedModel("no")
    with pytest.raises(ls.InvalidOutput):
        await ls.Agent(model, output=ls.Output(Point, repair=0)).run("Go")
    assert len(model.requests) == 1


async def test_a_collected_run_is_repaired_too() -> None:
    run = ls.Agent(ScriptedModel("no", '{"x": 1}'), output=Point).stream("Go")
    await run.collect()
    assert run.object == Point(1)


async def test_the_last_step_is_not_repaired() -> None:
    """At `max_steps` nobody would read the answer: the error is the type's, not the limit's."""
    model = ScriptedModel("no")
    with pytest.raises(ls.InvalidOutput):
        await ls.Agent(model, output=Point, max_steps=1).run("Go")


async def test_a_list_is_given_without_its_wrapper() -> None:
    assert await ls.Agent(ScriptedModel('{"items": ["a"]}'), output=list[str]).run("Go") == ["a"]


async def test_tools_come_before_a_typed_answer() -> None:
    model = ScriptedModel(Turn(calls=(Call("look"),)), '{"x": 3}')
    assert await ls.Agent(model, tools=[look], output=Point).run("Go") == Point(3)


async def test_rewritten_response_is_validated() -> None:
    hooks = Hooks(after_model=lambda state, message: Rewrite(ls.Message.assistant('{"x": 4}')))
    model = ScriptedModel("no")
    assert await ls.Agent(model, output=Point, hooks=hooks).run("Go") == Point(4)


async def test_typed_sub_agent_repairs_its_output() -> None:
    inner = ls.Agent(ScriptedModel("no", '{"x": 5}'), output=Point)
    model = ScriptedModel(Turn(calls=(Call("ask", {"prompt": "?"}),)), "Done.")
    run = ls.Agent(model, tools=[inner.as_tool("ask")]).stream("Go")
    await run.collect()
    assert run.statuses[0].value == Point(5)


async def test_typed_chat_member_responds_in_text() -> None:
    chat = ls.Chat(ls.Message.user("Hi"))
    await ls.Agent(ScriptedModel('{"x": 6}'), name="clerk", output=Point).respond(chat)
    assert chat.messages()[-1].text == '{"x": 6}'


# -- no answer


@pytest.mark.parametrize("turn", [Turn(), Turn(reasoning="Hm."), Turn(text=" \n")])
async def test_an_empty_answer_is_an_error(turn: Turn) -> None:
    model = ScriptedModel(turn)
    with pytest.raises(ls.InvalidOutput) as caught:
        await ls.Agent(model).run("Go")
    assert caught.value.reason == "empty"
    assert isinstance(caught.value.partial, ls.Message)
    assert len(model.requests) == 1


async def test_an_empty_answer_is_asked_for_again() -> None:
    model = ScriptedModel(Turn(reasoning="Hm."), "Here.")
    assert (await ls.Agent(model, empty_retries=1).run("Go")).text == "Here."
    model = ScriptedModel(Turn(), Turn())
    with pytest.raises(ls.InvalidOutput):
        await ls.Agent(model, empty_retries=1).run("Go")
    assert len(model.requests) == 2


async def test_empty_response_stream_is_no_error() -> None:
    message = await ls.Agent(ScriptedModel(Turn())).stream("Go").collect()
    assert message.parts == ()


async def test_text_beside_calls_is_the_last_text() -> None:
    """No text follows the calls."""
    message = await ls.Agent(ScriptedModel(LOOKS, Turn()), tools=[look]).run("Go")
    assert message.text == "Let me look."


async def test_a_file_is_an_answer() -> None:
    from llmstream import events as ev

    turn = Turn(events=(ev.File("image/png", b"x"), ev.Finish("stop", ls.Usage())))
    message = await ls.Agent(ScriptedModel(LOOKS, turn), tools=[look]).run("Draw")
    assert any(isinstance(part, File) for part in message.parts)


@pytest.mark.parametrize("text", ["", "Half of"])
@pytest.mark.parametrize("typed", [False, True])
async def test_a_filtered_answer_is_an_error(text: str, typed: bool) -> None:
    options: dict[str, Any] = {"output": Point} if typed else {}
    model = ScriptedModel(Turn(text=text, finish_reason="content-filter"))
    with pytest.raises(ls.ContentFiltered) as caught:
        await ls.Agent(model, **options).run("Go")
    assert caught.value.reason == "content-filter"
    assert caught.value.partial.text == text
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (tokens_over(1), "tokens_over"),
        (cost_over(0.1), "cost_over"),
        (elapsed_over(-1), "elapsed_over"),
        (tool_calls_over(0), "tool_calls_over"),
        (no_progress(2), "no_progress"),
        (step_count(1), "step_count"),
    ],
)
async def test_a_budget_is_an_error_with_its_name(condition: Any, reason: str) -> None:
    model = ScriptedModel(*[Turn(calls=(Call("look"),))] * 3)
    agent = ls.Agent(model, tools=[look], stop_when=condition, price=lambda model, usage: 1.0)
    with pytest.raises(ls.LimitExceeded, match=reason) as caught:
        await agent.run("Go")
    assert caught.value.reason == reason
    assert caught.value.partial.tool_calls
    model = ScriptedModel(*[Turn(calls=(Call("look"),))] * 3)
    run = ls.Agent(model, tools=[look], stop_when=condition, price=lambda model, usage: 1.0).stream("Go")
    await run.collect()
    assert run.limit_reached == reason


async def test_step_limit_is_counted_in_english() -> None:
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("look"),))), tools=[look], max_steps=1)
    with pytest.raises(ls.LimitExceeded, match="its limit of 1 step before"):
        await agent.run("Go")


async def test_budget_used_by_response_is_no_error() -> None:
    assert (await ls.Agent(ScriptedModel("Done."), stop_when=tokens_over(1)).run("Go")).text


async def test_application_stop_is_no_error() -> None:
    turn = Turn(calls=(Call("look"),))
    agent = ls.Agent(ScriptedModel(turn), tools=[look], stop_when=tool_called("look"))
    assert (await agent.run("Go")).tool_calls


async def test_tool_that_ends_the_run_is_no_error() -> None:
    async def give() -> ls.ToolOutput:
        """Give."""
        return ls.ToolOutput("given", stop=True)

    message = await ls.Agent(ScriptedModel(Turn(calls=(Call("give"),))), tools=[give]).run("Go")
    assert message.tool_calls


# -- the same mistake again and again


@pytest.mark.parametrize(
    "call",
    [Call("look", {"what": 1}), Call("nothing"), Call("look", "{broken")],
    ids=["input", "name", "json"],
)
async def test_calls_that_cannot_run_end_the_run(call: Call) -> None:
    async def look(what: str) -> str:
        """Look."""
        return "seen"

    model = ScriptedModel(*[Turn(calls=(call,))] * 5)
    with pytest.raises(ls.LimitExceeded) as caught:
        await ls.Agent(model, tools=[look]).run("Go")
    assert caught.value.reason == "invalid_calls"
    assert len(model.requests) == 3


async def test_successful_call_resets_error_count() -> None:
    async def square(x: int) -> int:
        """Square."""
        return x * x

    bad, good = Turn(calls=(Call("square", {"x": "a"}),)), Turn(calls=(Call("square", {"x": 2}),))
    model = ScriptedModel(bad, bad, good, bad, bad, good, "Done.")
    assert (await ls.Agent(model, tools=[square]).run("Go")).text == "Done."


async def test_the_bound_may_be_lifted() -> None:
    turns = [Turn(calls=(Call("nothing"),))] * 5
    agent = ls.Agent(ScriptedModel(*turns, "Done."), tools=[look], max_invalid_calls=None)
    assert (await agent.run("Go")).text == "Done."


async def test_tool_errors_are_not_invalid_output() -> None:
    async def fail() -> str:
        """Fail."""
        raise ValueError("no")

    model = ScriptedModel(*[Turn(calls=(Call("fail"),))] * 4, "Done.")
    assert (await ls.Agent(model, tools=[fail]).run("Go")).text == "Done."


# -- once more


async def test_a_hook_has_the_model_answer_again() -> None:
    def judged(state: RunState, message: ls.Message) -> Again | None:
        return Again("Shorter.") if len(message.text) > 5 else None

    model = ScriptedModel("A long answer.", "Short")
    run = ls.Agent(model, hooks=Hooks(after_model=judged)).stream("Go")
    assert (await run.collect()).text == "Short"
    assert [m.text for m in run.messages()] == ["Go", "A long answer.", "Shorter.", "Short"]


async def test_calls_of_rejected_response_not_run() -> None:
    ran: list[int] = []

    async def pay() -> str:
        """Pay."""
        ran.append(1)
        return "paid"

    async def judged(state: RunState, message: ls.Message) -> Again | None:
        return Again("Do not pay.") if message.tool_calls else None

    model = ScriptedModel(Turn(calls=(Call("pay"),)), "Fine.")
    assert (await ls.Agent(model, tools=[pay], hooks=Hooks(after_model=judged)).run("Go")).text
    assert ran == []
    result, feedback = model.requests[1].messages[-2:]
    assert result.tool_results[0].is_error
    assert feedback.text == "Do not pay."


async def test_again_is_bounded() -> None:
    hooks = Hooks(after_model=lambda state, message: Again("Worse."), max_again=2)
    model = ScriptedModel("a", "b", "c", "d")
    with pytest.raises(ls.InvalidOutput, match="Worse") as caught:
        await ls.Agent(model, hooks=hooks).run("Go")
    assert (caught.value.reason, len(model.requests)) == ("again", 3)
    assert caught.value.partial.text == "c"


# -- what a run may have of its own


async def test_a_run_has_its_own_options() -> None:
    async def other() -> str:
        """Other."""
        return "other"

    model = ScriptedModel(Turn(calls=(Call("other"),)), "Done.", "Done.")
    agent = ls.Agent(model, tools=[look], temperature=0.1, instructions="Be kind.")
    await agent.run("Go", tools=[other], settings={"temperature": 0.9}, instructions="Be brief.")
    await agent.run("Go")
    first, _, last = model.requests
    assert [t.name for t in first.tools] == ["other"]
    assert (first.settings.temperature, last.settings.temperature) == (0.9, 0.1)
    assert [r.messages[0].text for r in (first, last)] == ["Be brief.", "Be kind."]
    assert [t.name for t in last.tools] == ["look"]


async def test_a_run_has_its_own_type_and_limit() -> None:
    agent = ls.Agent(ScriptedModel('{"x": 1}', LOOKS, "Done."), tools=[look])
    assert await agent.run("Go", output=Point) == Point(1)
    with pytest.raises(ls.LimitExceeded):
        await agent.run("Go", max_steps=1)


def test_unknown_run_option_is_refused() -> None:
    with pytest.raises(ls.InvalidRequest, match="temprature"):
        ls.Agent(ScriptedModel("x")).stream("Go", temprature=1)  # type: ignore[call-arg]


async def test_a_run_is_read_as_a_stream_is() -> None:
    run = ls.Agent(ScriptedModel(LOOKS, "Done."), tools=[look]).stream("Go")
    assert "".join([text async for text in run.text_deltas()]) == "Let me look.Done."
    run = ls.Agent(ScriptedModel("Hi")).stream("Go")
    seen = []
    while await run.next():
        seen.append(run.current)
    assert isinstance(seen[-1], ls.Finish)
    assert not await run.next()
    assert run.total_usage == run.usage


async def test_usage_is_the_last_steps() -> None:
    run = ls.Agent(ScriptedModel(LOOKS, "Done."), tools=[look]).stream("Go")
    await run.collect()
    assert run.usage == run.steps[-1].usage
    assert run.total_usage == run.steps[0].usage + run.steps[1].usage


async def test_added_is_what_follows_the_prompt() -> None:
    run = ls.Agent(ScriptedModel(LOOKS, "Done."), instructions="Be short.", tools=[look]).stream("Go")
    assert run.added() == []
    await run.collect()
    assert [m.role.value for m in run.messages()] == ["system", "user", "assistant", "tool", "assistant"]
    assert run.added() == run.messages()[2:]


async def test_extra_instructions_stand_behind() -> None:
    """Of a text and of a function alike, and for one run only."""

    async def asked(state: RunState) -> str:
        return "Be kind."

    for instructions in ("Be kind.", asked):
        model = ScriptedModel("Hi", repeat_last=True)
        agent = ls.Agent(model, instructions=instructions)
        await agent.run("Go", extra_instructions="Be short.")
        await agent.run("Go")
        heads = [request.messages[0].text for request in model.requests]
        assert heads == ["Be kind.\n\nBe short.", "Be kind."]


async def test_agent_timeout_applies_to_each_tool() -> None:
    import asyncio

    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(Turn(calls=(Call("wait"),)), "Done.")
    await ls.Agent(model, tools=[wait], tool_timeout_s=0.01).run("Go")
    assert "stopped after 0.01 s" in model.requests[1].messages[-1].tool_results[0].content


async def test_run_has_own_model_and_instructions() -> None:
    agent = ls.Agent(ScriptedModel("Mine."), instructions="Be kind.")
    other = ScriptedModel("Other.", "Other.")
    assert (await agent.run("Go", model=other, instructions="Be brief.")).text == "Other."
    await agent.run("Go", model=other, instructions=lambda state: f"Step {state.step}.")
    assert [r.messages[0].text for r in other.requests] == ["Be brief.", "Step 0."]
    assert (await agent.run("Go")).text == "Mine."


async def test_a_run_has_its_own_conditions() -> None:
    agent = ls.Agent(ScriptedModel(LOOKS), tools=[look])
    run = agent.stream("Go", stop_when=tool_called("look"))
    await run.collect()
    assert run.stopped_by == "tool_called('look')"


async def test_hook_stop_before_start_no_response() -> None:
    agent = ls.Agent(ScriptedModel("x"), hooks=Hooks(before_model=lambda state: Stop("policy")))
    with pytest.raises(ls.InvalidOutput, match="policy") as caught:
        await agent.run("Go")
    assert caught.value.reason == "stopped"


@pytest.mark.parametrize("choice", ["required", "look"])
async def test_a_forced_call_is_forced_once(choice: str) -> None:
    model = ScriptedModel(Turn(calls=(Call("look"),)), "Done.")
    await ls.Agent(model, tools=[look], tool_choice=choice).run("Go")
    first, second = [request.tool_choice for request in model.requests]
    assert first is not None
    assert second is None


async def test_required_call_stays_with_stop_when() -> None:
    model = ScriptedModel(Turn(calls=(Call("look"),)), Turn(calls=(Call("look"),)))
    agent = ls.Agent(model, tools=[look], tool_choice="required", stop_when=step_count(2))
    await agent.stream("Go").collect()
    assert [request.tool_choice for request in model.requests] == ["required"] * 2


async def test_a_plan_forces_a_call_at_its_step() -> None:
    def plan(state: RunState) -> ls.StepPlan:
        return ls.StepPlan(tool_choice="required" if state.step < 2 else "none")

    model = ScriptedModel(Turn(calls=(Call("look"),)), Turn(calls=(Call("look"),)), "Done.")
    await ls.Agent(model, tools=[look], tool_choice="look", prepare_step=plan).run("Go")
    assert [request.tool_choice for request in model.requests] == ["required", "required", "none"]


async def test_failure_is_an_error_of_run() -> None:
    """With errors="events" too."""
    agent = ls.Agent(ScriptedModel(Turn(fault=Refuse(status=500))), errors="events")
    with pytest.raises(ls.ServerError):
        await agent.run("Go")


CUT_CALL = (
    ev.ToolInputStart("look", "c2"),
    ev.ToolInputDelta('{"wh', "c2"),
    ev.ToolInputEnd("c2", incomplete=True),
    ev.Finish("length", ls.Usage()),
)
SAYS = (ev.TextStart("0"), ev.TextDelta("Let me", "0"), ev.TextEnd("0"))


async def test_response_cut_in_only_call_is_error() -> None:
    with pytest.raises(ls.IncompleteStream, match="inside a tool call") as caught:
        await ls.Agent(ScriptedModel(Turn(events=(*SAYS, *CUT_CALL))), tools=[look]).run("Go")
    assert caught.value.partial.text == "Let me"


async def test_whole_calls_before_a_cut_one_run() -> None:
    whole = (
        ev.ToolInputStart("look", "c1"),
        ev.ToolInputDelta("{}", "c1"),
        ev.ToolInputEnd("c1"),
        ev.ToolCall("look", "{}", "c1"),
    )
    model = ScriptedModel(Turn(events=(*whole, *CUT_CALL)), "Done.")
    assert (await ls.Agent(model, tools=[look]).run("Go")).text == "Done."
