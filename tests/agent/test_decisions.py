"""What a person and a hook decide about a call that waits: edited, noted, forbidden meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import llmstream as ls
from llmstream.agent import Hooks, Rewrite, RunState, Skip, Stop
from llmstream.chats.content import ToolCall
from llmstream.request import ToolSpec
from llmstream.testing import Call, ScriptedModel, Turn

PAYS = Turn(calls=(Call("pay", {"euros": 3}),))


class Till:
    """Knows what was paid, and what was said about it."""

    def __init__(self) -> None:
        self.paid: list[tuple[int, str]] = []

    @property
    def pay(self) -> ls.Tool:
        @ls.tool(needs_approval=True)
        async def pay(euros: int, context: ls.ToolContext) -> str:
            """Pay."""
            self.paid.append((euros, context.note))
            return f"{euros} paid"

        return pay


async def suspended(agent: ls.Agent) -> ls.Suspension:
    run = agent.stream("Go")
    await run.collect()
    assert run.suspended is not None
    return ls.Suspension.from_json(run.suspended.to_json())


def all_by(decision: Any, suspension: ls.Suspension) -> dict[str, Any]:
    return {p.approval_id: decision for p in suspension.pending}


# -- edited


async def test_edited_arguments_are_those_that_run() -> None:
    till, model = Till(), ScriptedModel(PAYS, "Done.")
    agent = ls.Agent(model, tools=[till.pay], approval_key=b"secret")
    suspension = await suspended(agent)
    run = agent.resume(suspension, all_by(ls.Approve(arguments={"euros": 2}, note="half"), suspension))
    await run.collect()
    assert till.paid == [(2, "half")]
    assert run.messages()[1].tool_calls[0].arguments == '{"euros":2}'
    assert model.requests[1].messages[1].tool_calls[0].arguments == '{"euros":2}'


async def test_edited_arguments_have_to_fit() -> None:
    till = Till()
    agent = ls.Agent(ScriptedModel(PAYS, "Done."), tools=[till.pay])
    suspension = await suspended(agent)
    with pytest.raises(ls.InvalidRequest, match="do not fit"):
        agent.resume(suspension, all_by(ls.Approve(arguments={"euros": "many"}), suspension))
    await agent.resume(suspension, all_by(True, suspension)).collect()  # it is not used up
    assert till.paid == [(3, "")]


async def test_an_edit_is_bound_by_a_new_digest() -> None:
    """What is left undecided suspends the run anew, and the new seal covers what was edited."""
    till = Till()
    model = ScriptedModel(Turn(calls=PAYS.calls * 2), "Done.")
    agent = ls.Agent(model, tools=[till.pay], approval_key=b"secret")
    first = await suspended(agent)
    run = agent.resume(first, {first.pending[0].approval_id: ls.Approve(arguments={"euros": 1})})
    await run.collect()
    second = run.suspended
    assert second is not None
    assert [c.arguments for c in second.messages[-1].tool_calls] == ['{"euros":1}', '{"euros":3}']
    assert (second.id, second.seal) != (first.id, first.seal)
    await agent.resume(second, all_by(True, second)).collect()
    assert till.paid == [(1, ""), (3, "")]


async def test_an_approver_may_edit() -> None:
    till, model = Till(), ScriptedModel(PAYS, "Done.")
    approve = lambda pending: ls.Approve(arguments={"euros": 1}, note="cheap")  # noqa: E731
    await ls.Agent(model, tools=[till.pay], approve=approve).run("Go")
    assert till.paid == [(1, "cheap")]
    assert model.requests[1].messages[1].tool_calls[0].arguments == '{"euros":1}'


async def test_invalid_edit_by_approver_not_run() -> None:
    till = Till()
    approve = lambda pending: ls.Approve(arguments={"cents": 1})  # noqa: E731
    with pytest.raises(ls.InvalidRequest, match="do not fit"):
        await ls.Agent(ScriptedModel(PAYS), tools=[till.pay], approve=approve).run("Go")
    assert till.paid == []


async def test_a_call_of_a_sub_agent_may_be_edited() -> None:
    till = Till()
    inner = ls.Agent(ScriptedModel(PAYS, "Paid."), name="clerk", tools=[till.pay])
    model = ScriptedModel(Turn(calls=(Call("clerk", {"prompt": "?"}),)), "Done.")
    agent = ls.Agent(model, tools=[inner.as_tool()])
    suspension = await suspended(agent)
    await agent.resume(suspension, all_by(ls.Approve({"euros": 2}, "half"), suspension)).collect()
    assert till.paid == [(2, "half")]


@pytest.mark.parametrize("arguments", ["euros=1", [1], {"euros": object()}])
def test_invalid_arguments_not_approvable(arguments: Any) -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.Approve(arguments=arguments)


# -- the hook, asked again


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (ls.Deny("policy changed"), "The call was denied: policy changed. It has not run."),
        (Skip("later"), "later"),
        (Stop("closed"), "The call was not run: closed."),
        (Rewrite({"euros": 1}), "hook changed the approved arguments"),
    ],
)
async def test_hook_forbids_an_approved_call(said: Any, result: str) -> None:
    till, model = Till(), ScriptedModel(PAYS, "Done.")
    suspension = await suspended(ls.Agent(model, tools=[till.pay]))
    agent = ls.Agent(model, tools=[till.pay], hooks=Hooks(before_tool=lambda state, call: said))
    run = agent.resume(suspension, all_by(True, suspension))
    await run.collect()
    assert till.paid == []
    assert result in run.statuses[0].result.content
    assert (run.stopped_by is not None) == isinstance(said, Stop)


@pytest.mark.parametrize("euros", [3, 2])
async def test_request_has_the_rewritten_input(euros: int) -> None:
    """A person decides about what will run; the call's own event has what the model asked for."""
    rewritten = Hooks(before_tool=lambda state, call: Rewrite({"euros": euros}))
    run = ls.Agent(ScriptedModel(PAYS), tools=[Till().pay], hooks=rewritten).stream("Go")
    (request,) = [event async for event in run if isinstance(event, ls.events.ToolApprovalRequest)]
    will_run = {"llmstream": {"tool_name": "pay", "input": '{"euros":2}'}}
    assert request.provider_metadata == (None if euros == 3 else will_run)


@pytest.mark.parametrize("said", [None, ls.Approve(), Rewrite({"euros": 3})])
async def test_hook_passes_an_approved_call(said: Any) -> None:
    till, model = Till(), ScriptedModel(PAYS, "Done.")
    suspension = await suspended(ls.Agent(model, tools=[till.pay]))
    agent = ls.Agent(model, tools=[till.pay], hooks=Hooks(before_tool=lambda state, call: said))
    await agent.resume(suspension, all_by(True, suspension)).collect()
    assert till.paid == [(3, "")]


async def test_a_hook_sees_the_edited_call() -> None:
    till, model, seen = Till(), ScriptedModel(PAYS, "Done."), []
    agent = ls.Agent(
        model, tools=[till.pay], hooks=Hooks(before_tool=lambda state, call: seen.append(call.arguments))
    )
    suspension = await suspended(agent)
    await agent.resume(suspension, all_by(ls.Approve({"euros": 9}), suspension)).collect()
    assert seen == ['{"euros":3}', '{"euros":9}']


# -- calls that cannot run


@pytest.mark.parametrize("needed", [True, lambda arguments: True], ids=["flag", "predicate"])
@pytest.mark.parametrize("arguments", [{"euros": "many"}, {}, "{broken"])
async def test_unrunnable_call_asks_no_approval(needed: Any, arguments: Any) -> None:
    @ls.tool(needs_approval=needed)
    async def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel(Turn(calls=(Call("pay", arguments),)), "Sorry.")
    run = ls.Agent(model, tools=[pay]).stream("Go")
    assert (await run.collect()).text == "Sorry."
    assert "Invalid arguments for pay" in run.statuses[0].result.content
    stream = ScriptedModel(Turn(calls=(Call("pay", arguments),)), "Sorry.").stream("Go", tools=[pay])
    (status,) = await stream.call_tools()
    assert status.error is not None


async def test_declared_bad_json_call_is_an_error() -> None:
    """The model gets the error."""
    spec = ToolSpec("send", "Send.", {"type": "object"})
    model = ScriptedModel(Turn(calls=(Call("send", '{"to": '),)), Turn(calls=(Call("send", {"to": "x"}),)))
    run = ls.Agent(model, tools=[spec]).stream("Go")
    await run.collect()
    assert model.requests[1].messages[-1].tool_results[0].is_error
    assert run.suspended is not None
    assert [p.arguments for p in run.suspended.pending] == ['{"to":"x"}']


async def test_declared_broken_call_is_repairable() -> None:
    spec = ToolSpec("send", "Send.", {"type": "object"})
    agent = ls.Agent(
        ScriptedModel(Turn(calls=(Call("send", "{"),))),
        tools=[spec],
        repair=lambda call, error: ToolCall(call.id, call.name, '{"to":"y"}'),
    )
    assert [p.arguments for p in (await suspended(agent)).pending] == ['{"to":"y"}']


# -- what sees the run


async def test_a_predicate_may_take_the_context() -> None:
    seen: list[Any] = []

    def needed(arguments: Mapping[str, Any], context: ls.ToolContext) -> bool:
        seen.append((context.deps, context.tool_name, context.step, len(context.messages)))
        return arguments["euros"] > context.deps

    @ls.tool(needs_approval=needed)
    async def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    agent = ls.Agent(ScriptedModel(PAYS, "Done.", PAYS), tools=[pay])
    assert (await agent.run("Go", deps=10)).text == "Done."
    run = agent.stream("Go", deps=1)
    await run.collect()
    assert run.suspended is not None
    assert seen == [(10, "pay", 0, 2), (1, "pay", 0, 2)]


async def test_predicate_setting_is_no_context() -> None:
    def needed(arguments: Mapping[str, Any], limit: int = 5) -> bool:
        return arguments["euros"] > limit

    @ls.tool(needs_approval=needed)
    async def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    assert (await ls.Agent(ScriptedModel(PAYS, "Done."), tools=[pay]).run("Go")).text == "Done."


async def test_instructions_evaluated_at_each_step() -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    async def instructions(state: RunState) -> str:
        return f"{state.deps}, step {state.step}."

    model = ScriptedModel(Turn(calls=(Call("look"),)), "Done.")
    run = ls.Agent(model, tools=[look], instructions=instructions).stream("Go", deps="Be kind")
    await run.collect()
    assert [r.messages[0].text for r in model.requests] == ["Be kind, step 0.", "Be kind, step 1."]
    assert [m.role for r in model.requests for m in r.messages].count("system") == 2
    assert [m.role for m in run.messages()] == ["user", "assistant", "tool", "assistant"]


async def test_instructions_are_none_or_text() -> None:
    model = ScriptedModel("Done.")
    await ls.Agent(model, instructions=lambda state: None).run("Go")
    assert [m.role for m in model.requests[0].messages] == ["user"]
    with pytest.raises(ls.InvalidRequest, match="str or None"):
        await ls.Agent(model, instructions=lambda state: 3).run("Go")  # type: ignore[arg-type,return-value]


async def test_a_context_effect_may_take_the_state() -> None:
    def last(messages: list[ls.Message], state: RunState) -> list[ls.Message]:
        return messages[-state.deps :]

    model = ScriptedModel("Done.")
    prompt = [ls.Message.user("a"), ls.Message.assistant("b"), ls.Message.user("c")]
    await ls.Agent(model, context_effects=last, deps=1).run(prompt)
    await ls.Agent(
        model := ScriptedModel("Done."), context_effects=ls.agent.context.Effect(last), deps=1
    ).run(prompt)
    assert [m.text for m in model.requests[0].messages] == ["c"]
    with pytest.raises(ls.InvalidRequest, match="state of a run"):
        await ls.agent.context.applied(prompt, [last])


async def test_a_plan_has_its_own_instructions() -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    def plan(state: RunState) -> ls.StepPlan:
        return ls.StepPlan(instructions="Sum up.") if state.step else ls.StepPlan()

    for instructions in ("Be kind.", lambda state: "Be kind."):
        model = ScriptedModel(Turn(calls=(Call("look"),)), "Done.")
        agent = ls.Agent(model, tools=[look], instructions=instructions, prepare_step=plan)
        await agent.run([ls.Message.system("You are Bo."), ls.Message.user("Go")])
        shown = [[m.text for m in r.messages if m.role == "system"] for r in model.requests]
        assert shown == [["Be kind.", "You are Bo."], ["Sum up.", "You are Bo."]]
