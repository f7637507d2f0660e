"""Durable runs in one process: started, suspended, decided about, sent messages, resumed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.agent import Again, Hooks, RunState, step_count
from llmstream.agent.context import sliding_window, summarise
from llmstream.durable import Runs
from llmstream.durable.store_steps import StoreSteps
from llmstream.errors import InvalidOutput, InvalidRequest, Stopped
from llmstream.events import RetryNotice
from llmstream.middleware import Ask, wrap
from llmstream.request import Request
from llmstream.simulator.script import Call
from llmstream.testing import ScriptedModel, Turn
from llmstream.tools import ToolContext
from tests.durable.clerk import ANSWER, PROMPT, Effects, clerk


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


def by_answers(*turns: Turn | str) -> Callable[[Request], Turn | str]:
    """A script by how many answers the conversation has, so that it is the same in each process."""
    return lambda request: turns[sum(message.role == "assistant" for message in request.messages)]


async def read(runs: Runs, agent: ls.Agent, run: str = "order") -> list[ls.Event]:
    found = [event async for event in runs.stream(agent, run)]
    assert grammar.check(found) == [] or not isinstance(found[-1], ls.Finish)
    return found


def kinds(found: list[ls.Event], *types: type) -> list[str]:
    return [type(event).__name__ for event in found if isinstance(event, types)]


async def test_run_goes_to_its_end(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects), "order", PROMPT)
        found = [event async for event in run]
        assert grammar.check(found) == []
        assert (run.state, run.text, run.finish_reason) == ("done", ANSWER, "stop")
        assert [message.text for message in run.messages()][-1] == ANSWER
        status = await runs.status("order")
        assert status is not None
        assert status.usage == run.total_usage
        assert status.usage.output_tokens


async def test_same_id_does_nothing_twice(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        first = [event async for event in runs.stream(clerk(effects), "order", PROMPT)]
        done = effects.path.read_text()
        assert [event async for event in runs.stream(clerk(effects), "order", PROMPT)] == first
        assert effects.path.read_text() == done


async def test_decision_while_nobody_runs(place: str, effects: Effects) -> None:
    """Each part in another `Runs`, as in another process; the log is one sentence without a retry."""
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        assert not isinstance([event async for event in run][-1], ls.Finish)
        assert run.state == "waiting"
        (call,) = run.pending
        assert call.name == "pay"
    async with Runs(place) as runs:
        (info,) = await runs.list(state="waiting")
        assert info.pending == (call,)
        await runs.decide("order", {call.approval_id: True})
        with pytest.raises(InvalidRequest, match="before"):
            await runs.decide("order", {call.approval_id: False})
    async with Runs(place) as runs:
        assert await runs.resume({"clerk": clerk(effects, approval=True)}, once=True) == 1
        found = await read(runs, clerk(effects))
        assert isinstance(found[-1], ls.Finish)
        assert kinds(found, RetryNotice) == []
        assert len(kinds(found, ls.ToolApprovalRequest)) == 1
        assert effects.lines("tool")[-1] == "order/1/call/call_1_0"
        assert len(effects.lines("tool")) == len(effects.lines("asked")) == 3


async def test_a_misspelt_name_is_reported(
    place: str, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runs(place) as runs:
        for agents in ({}, [clerk(effects)]):
            with pytest.raises(InvalidRequest, match="by their names"):
                await runs.resume(agents, once=True)  # type: ignore[arg-type]
        assert await runs.resume({"clerk": clerk(effects)}, once=True) == 0
        assert caplog.messages == []
        assert await runs.resume({"clark": clerk(effects)}, once=True) == 0
    assert caplog.messages == ["runs of 'clark' are resumed with the agent 'clerk', which has another name"]


async def test_runs_that_nobody_takes_are_named(
    place: str, effects: Effects, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is misspelt both in the agent and in `resume`."""
    monkeypatch.setattr("llmstream.durable.runs._OVERDUE_S", 0.0)
    async with Runs(place) as runs:
        for run in ("one", "two"):
            await runs.submit("clark", run, PROMPT)
        await asyncio.sleep(0.02)  # two readings of a coarse clock
        for _ in range(3):
            assert await runs.resume({"clerk": clerk(effects)}, once=True) == 0
    (message,) = caplog.messages
    assert message.startswith("durable runs of the agent 'clark' have been due for over a minute, 2 by now")
    assert "this one resumes 'clerk'" in message


async def test_new_runs_of_others_are_not_named(
    place: str, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    """Another worker may have the agent."""
    async with Runs(place) as runs:
        await runs.submit("clark", "one", PROMPT)
        assert await runs.resume({"clerk": clerk(effects)}, once=True) == 0
    assert caplog.messages == []


async def test_message_reaches_the_next_step(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        _ = [event async for event in run]
        await runs.send("order", "And be quick.")
        await runs.decide("order", {run.pending[0].approval_id: True})
        again = runs.stream(clerk(effects, approval=True), "order")
        _ = [event async for event in again]
        assert [m.text for m in again.messages() if m.role == "user"] == [PROMPT, "And be quick."]
        with pytest.raises(InvalidRequest, match="has ended"):
            await runs.send("order", "Too late.")


async def test_waiting_run_can_be_stopped(place: str, effects: Effects) -> None:
    async with Runs(place) as runs:
        run = runs.stream(clerk(effects, approval=True), "order", PROMPT)
        _ = [event async for event in run]
        assert await runs.stop("order")
        assert not await runs.stop("order")
        again = runs.stream(clerk(effects, approval=True), "order")
        with pytest.raises(Stopped):
            _ = [event async for event in again]
        assert again.state == "stopped"


async def test_reader_takes_over_from_the_dead(place: str, effects: Effects) -> None:
    """A process left the run in its middle; who streams it goes on with it."""
    async with Runs(place, lease_s=0.2) as runs:
        await runs.submit("clerk", "order", PROMPT)
        assert await runs._store.claim("order", "dead", 0.2) is not None
        run = runs.stream(clerk(effects), "order")
        found = [event async for event in run]
        assert grammar.check(found) == []
        assert (run.state, run.text) == ("done", ANSWER)


@pytest.mark.parametrize("call_id", ["call_1", "strange/\0"], ids=["usual", "strange"])
async def test_external_result_is_given(place: str, call_id: str) -> None:
    """A call of a declared tool waits for its result, from any process; whatever the vendor's id of it."""
    calls = Turn(calls=(Call("lookup", {"id": 3}, id=call_id), Call("weigh", {"item": 1}, id=f"{call_id}2")))

    def weigh(item: int) -> str:
        """Weigh an item."""
        return "2 kg"

    spec = ls.ToolSpec("lookup", "Look it up elsewhere.", {"type": "object"})
    agent = ls.Agent(ScriptedModel(by_answers(calls, "Found.")), name="clerk", tools=[spec, weigh])
    async with Runs(place) as runs:
        run = runs.stream(agent, "order", PROMPT)
        _ = [event async for event in run]
        (call,) = run.pending
        await runs.decide("order", results={call.call_id: {"price": 5}})
        again = runs.stream(agent, "order")
        assert (await again.collect()).text == "Found."
        results = [r.content for m in again.messages() for r in m.tool_results]
        assert results == ['{"price":5}', "2 kg"]


async def test_running_run_can_be_stopped(place: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("wait"),))), name="clerk", tools=[wait])
    async with Runs(place) as runs, Runs(place) as others:
        reading = asyncio.ensure_future(runs.stream(agent, "order", PROMPT).collect())
        await begun.wait()
        assert await others.stop("order")
        with pytest.raises(Stopped):
            await reading
        assert ended.is_set()
        status = await others.status("order")
        assert status is not None
        assert status.state == "stopped"


async def test_person_decides_about_interrupted(place: str, effects: Effects) -> None:
    """`interrupted="ask"`: the call waits for a person, and runs once that person approves."""
    async with Runs(place) as runs:
        await runs.submit("clerk", "order", PROMPT)
        store = runs._store
        record = await store.claim("order", "dead", 0.01)
        assert record is not None
        await store.begin("order", record.epoch, "0/call/call_0_1")
        await store.leave("order", record.epoch, "running", "", "")
        agent = clerk(effects, interrupted="ask")
        run = runs.stream(agent, "order")
        _ = [event async for event in run]
        assert effects.lines("tool") == ["order/0/call/call_0_0"]
        (call,) = run.pending
        assert (call.name, call.call_id) == ("weigh", "call_0_1")
        await runs.decide("order", {call.approval_id: True})
        assert (await runs.stream(agent, "order").collect()).text == ANSWER
        assert sorted(effects.lines("tool"))[:2] == ["order/0/call/call_0_0", "order/0/call/call_0_1"]


async def test_sub_agent_waits_for_approval(place: str) -> None:
    """The approval of a call of a sub-agent: decided about at the top, and the sub-agent goes on."""
    paid = list[str]()

    def pay(context: ToolContext) -> str:
        """Pay."""
        paid.append(context.key)
        return "paid"

    def agent() -> ls.Agent:
        inner = ls.Agent(
            ScriptedModel(by_answers(Turn(calls=(Call("pay"),)), "It is paid.")),
            name="bank",
            tools=[ls.tool(pay, needs_approval=True)],
        )
        outer = by_answers(Turn(calls=(Call("bank", {"prompt": "Pay."}),)), ANSWER)
        return ls.Agent(ScriptedModel(outer), name="clerk", tools=[inner.as_tool()])

    async with Runs(place) as runs:
        run = runs.stream(agent(), "order", PROMPT)
        _ = [event async for event in run]
        (call,) = run.pending
        assert (call.agent, call.name) == ("bank", "pay")
        await runs.decide("order", {call.approval_id: True})
        again = runs.stream(agent(), "order")
        assert (await again.collect()).text == ANSWER
        assert len(paid) == 1
        assert paid[0].startswith("order/0/call/call_0_0/")
        status = await runs.status("order")
        assert status is not None
        assert status.usage == again.total_usage


async def test_one_of_two_sub_agents_waits(place: str) -> None:
    """Two wait, and one is decided about: the run waits for the other, and goes on after its decision."""
    pay = Turn(calls=(Call("pay"),))
    both = Turn(calls=(Call("bank", {"prompt": "One."}), Call("bank", {"prompt": "Two."})))

    def agent() -> ls.Agent:
        tool = ls.tool(lambda: "paid", name="pay", description="Pay.", needs_approval=True)
        inner = ls.Agent(ScriptedModel(by_answers(pay, "It is paid.")), name="bank", tools=[tool])
        return ls.Agent(ScriptedModel(by_answers(both, ANSWER)), name="clerk", tools=[inner.as_tool()])

    async with asyncio.timeout(30), Runs(place) as runs:
        info = await runs.run(agent(), "order", PROMPT)
        for left in (2, 1):
            assert (info.state, len(info.pending)) == ("waiting", left)
            await runs.decide("order", {info.pending[0].approval_id: True})
            info = await runs.run(agent(), "order")
        assert (info.state, info.text) == ("done", ANSWER)


async def test_message_during_the_last_answer(place: str) -> None:
    """It came after the last look at the inbox, and before the end: it has an answer."""

    async def late(state: RunState, message: ls.Message) -> None:
        if message.text == "One.":
            await runs.send("order", "And two?")

    agent = ls.Agent(ScriptedModel("One.", "Two."), name="clerk", hooks=Hooks(after_model=late))
    async with Runs(place) as runs:
        run = runs.stream(agent, "order", PROMPT)
        assert (await run.collect()).text == "Two."
        assert [m.text for m in run.messages()] == [PROMPT, "One.", "And two?", "Two."]


async def test_message_after_the_finish(place: str) -> None:
    """Who has seen the finish cannot send any more, whether or not the record has the end yet."""
    agent = ls.Agent(ScriptedModel("One."), name="clerk")
    async with Runs(place) as runs:
        async for event in runs.stream(agent, "order", PROMPT):
            if isinstance(event, ls.Finish):
                with pytest.raises(InvalidRequest, match="has ended or is ending"):
                    await runs.send("order", "And two?")


@pytest.mark.parametrize("fails", [False, True])
async def test_late_message_stays_unanswered(place: str, fails: bool) -> None:
    """A limit or a failure ends the run first: the message is the last one of the history."""

    async def late(state: RunState, message: ls.Message) -> Again | None:
        await runs.send("order", "And two?")
        return Again("No.") if fails else None

    hooks = Hooks(after_model=late, max_again=0)
    agent = ls.Agent(ScriptedModel("One."), name="clerk", hooks=hooks, stop_when=step_count(1))
    async with Runs(place) as runs:
        info = await runs.run(agent, "order", PROMPT)
        assert info.failure == (("invalid-output", ANY) if fails else None)
        run = runs.follow("order")
        with contextlib.suppress(InvalidOutput):
            await run.collect()
        assert [m.text for m in run.messages()] == [PROMPT, "One.", "And two?"]


async def test_each_message_counts_or_fails(place: str) -> None:
    """Senders race against the end of the run: what `send` accepts is in the history, once."""
    accepted = list[str]()

    async def sender(name: str) -> None:
        for number in range(5):
            text = f"{name}{number}"
            try:
                await runs.send("order", text)
            except InvalidRequest:
                return
            accepted.append(text)

    agent = ls.Agent(ScriptedModel(lambda request: "Yes."), name="clerk", max_steps=30)
    async with Runs(place) as runs:
        await runs.submit(agent, "order", PROMPT)
        run = runs.stream(agent, "order")
        async with asyncio.TaskGroup() as group:
            group.create_task(run.collect())
            for name in "abc":
                group.create_task(sender(name))
        found = [m.text for m in run.messages() if m.role == "user"]
    assert sorted(found) == sorted([PROMPT, *accepted])
    assert run.messages()[-1].text == "Yes."


async def test_cost_is_that_of_its_time(place: str, effects: Effects) -> None:
    """A recorded response costs what it did when it came, whatever the price of the next process."""
    so_far = list[float | None]()

    async def look(state: RunState, message: ls.Message) -> None:
        info = await runs.status("order")
        assert info is not None
        so_far.append(info.cost_estimate)

    def agent(price: float) -> ls.Agent:
        hooks = Hooks(after_model=look)
        return clerk(effects, approval=True, price=lambda model, usage: price, hooks=hooks)

    async with Runs(place) as runs:
        run = runs.stream(agent(1.0), "order", PROMPT)
        _ = [event async for event in run]
        await runs.decide("order", {run.pending[0].approval_id: True})
    async with Runs(place) as runs:
        info = await runs.run(agent(100.0), "order")
    assert (info.state, info.cost_estimate) == ("done", 102.0)
    assert so_far == [1.0, 2.0, 102.0]


@pytest.mark.parametrize(("own_price", "total"), [(None, 202.0), (5.0, 111.0)], ids=["parents", "own"])
async def test_cost_of_a_sub_agent_stays(place: str, own_price: float | None, total: float) -> None:
    """Its process dies in the middle of a sub-agent; what that had spent is not priced again."""
    begun = asyncio.Event()

    async def pay() -> str:
        """Pay."""
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return "paid"

    def agent(price: float) -> ls.Agent:
        inner = ls.Agent(
            ScriptedModel(by_answers(Turn(calls=(Call("pay"),)), "It is paid.")),
            name="bank",
            tools=[pay],
            interrupted="again",
            price=None if own_price is None else lambda model, usage: own_price,
        )
        outer = by_answers(Turn(calls=(Call("bank", {"prompt": "Pay."}),)), ANSWER)
        return ls.Agent(
            ScriptedModel(outer),
            name="clerk",
            tools=[inner.as_tool(idempotent=True)],
            price=lambda model, usage: price,
        )

    async with Runs(place) as runs:
        reading = asyncio.ensure_future(runs.run(agent(1.0), "order", PROMPT))
        await begun.wait()
        info = await runs.status("order")
        assert info is not None
        assert info.cost_estimate == 1.0 + (own_price or 1.0)
        reading.cancel()
    async with Runs(place) as runs:
        info = await runs.run(agent(100.0), "order")
        assert (info.state, info.text, info.cost_estimate) == ("done", ANSWER, total)


@pytest.mark.parametrize("replace", [False, True])
async def test_tokens_of_summaries_count(place: str, replace: bool) -> None:
    """The state of the run has the tokens and the cost of its context effects too; one that recovers, too."""
    chat = [ls.Message.user("Hello. " * 50), ls.Message.assistant("Hello."), ls.Message.user(PROMPT)]
    short = ScriptedModel("They greeted.", model="short")
    agent = ls.Agent(
        ScriptedModel(ANSWER),
        name="clerk",
        context_effects=[summarise(short, when_tokens_over=50, keep_turns=1, replace=replace)],
        price=lambda model, usage: 1.0 if model == "scripted:short" else 10.0,
    )
    async with Runs(place) as runs:
        run = runs.stream(agent, "order", chat)
        found = [event async for event in run]
        info = await runs.status("order")
        assert info is not None
        assert set(info.usage_by_model) == {"scripted:scripted", "scripted:short"}
        assert isinstance(found[-1], ls.Finish)
        assert info.usage == run.total_usage == found[-1].usage
        assert (info.cost_estimate, await runs._store.cost("order")) == (11.0, 11.0)
        again = agent.stream(
            chat, steps=StoreSteps(runs._store, "order", 0, await runs._store.steps("order"))
        )
        await again.collect()
        assert (again.usage_by_model, again.cost_estimate) == (info.usage_by_model, 11.0)


async def test_summary_paid_again_counts(place: str) -> None:
    """Its process dies between a summary and the response; the next one needs the summary once more."""
    chat = [ls.Message.user("Hello. " * 50), ls.Message.assistant("Hello."), ls.Message.user(PROMPT)]
    begun = asyncio.Event()

    async def stalls(request: Request, ask: Ask) -> AsyncIterator[ls.Event]:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        async for event in ask(request):
            yield event

    def agent() -> ls.Agent:
        short = ScriptedModel("They greeted.", model="short")
        return ls.Agent(
            wrap(ScriptedModel(ANSWER), stalls),
            name="clerk",
            context_effects=[summarise(short, when_tokens_over=50, keep_turns=1)],
            price=lambda model, usage: 1.0 if model == "scripted:short" else 10.0,
        )

    async with Runs(place) as runs:
        reading = asyncio.ensure_future(runs.run(agent(), "order", chat))
        await begun.wait()
        reading.cancel()
        once = (await runs._store.usage("order"))["scripted:short"]
    async with Runs(place) as runs:
        found = [event async for event in runs.stream(agent(), "order")]
        info = await runs.status("order")
        assert info is not None
        assert info.usage_by_model["scripted:short"] == once + once
        assert isinstance(found[-1], ls.Finish)
        assert info.usage == found[-1].usage
        assert (info.cost_estimate, await runs._store.cost("order")) == (12.0, 12.0)


async def test_shorter_request_is_no_difference(place: str, caplog: pytest.LogCaptureFixture) -> None:
    """What a context effect left out is not missing from the conversation when the run is recovered."""

    def agent() -> ls.Agent:
        turns = by_answers(Turn(calls=(Call("pay"),)), ANSWER)
        pay = ls.tool(lambda: "paid", name="pay", description="Pay.", needs_approval=True)
        return ls.Agent(ScriptedModel(turns), name="clerk", tools=[pay], context_effects=[sliding_window(1)])

    chat = [ls.Message.user("Hello."), ls.Message.user(PROMPT)]
    async with Runs(place) as runs:
        run = runs.stream(agent(), "order", chat)
        _ = [event async for event in run]
        await runs.decide("order", {run.pending[0].approval_id: True})
    async with Runs(place) as runs:
        assert (await runs.run(agent(), "order")).text == ANSWER
        assert "differs" not in caplog.text
    other = ScriptedModel(by_answers(Turn(calls=(Call("pay"),)), ANSWER))
    changed = ls.Agent(other, name="clerk", instructions="Others.")
    async with Runs(place) as runs:
        steps = StoreSteps(runs._store, "order", 0, await runs._store.steps("order"))
        with contextlib.suppress(ls.LLMStreamError):
            await changed.stream(chat, steps=steps).collect()
    assert "before 0/model differs" in caplog.text


async def test_decision_in_time_counts(place: str, effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nobody reads it before the approval expires."""
    agent = clerk(effects, approval=True, approval_ttl_s=60)
    async with Runs(place) as runs:
        run = runs.stream(agent, "order", PROMPT)
        _ = [event async for event in run]
        await runs.decide("order", {run.pending[0].approval_id: True})
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        assert (await runs.run(agent, "order")).text == ANSWER


async def test_late_decision_is_refused(place: str, effects: Effects) -> None:
    """The run keeps waiting: a person who is late does not end it. Another one continues its conversation."""
    agent = clerk(effects, approval=True, approval_ttl_s=-1)
    async with Runs(place) as runs:
        run = runs.stream(agent, "order", PROMPT)
        _ = [event async for event in run]
        with pytest.raises(InvalidRequest, match="longer than its agent's approval_ttl_s"):
            await runs.decide("order", {run.pending[0].approval_id: True})
        info = await runs.run(agent, "order")
        assert (info.state, info.ready) == ("waiting", False)
        await runs.stop("order")
        again = await runs.run(agent, "order-2", [*run.messages(), ls.Message.user(PROMPT)])
        assert (again.state, again.text) == (
            "done",
            f"{ANSWER} The call waits for a decision and has not run.",
        )


async def test_late_decision_about_a_sub_agent(place: str, effects: Effects) -> None:
    agent = clerk(effects, deep_approval=True, approval_ttl_s=-1)
    async with Runs(place) as runs:
        run = runs.stream(agent, "order", PROMPT)
        _ = [event async for event in run]
        with pytest.raises(InvalidRequest, match="approval_ttl_s"):
            await runs.decide("order", {run.pending[0].approval_id: True})


@pytest.mark.parametrize("run", ["", "x" * 513, "a\0b", "\ud800", 5])
async def test_invalid_id_is_refused(tmp_path: Path, run: Any) -> None:
    """By each method, before the database sees it."""
    async with Runs(f"sqlite:{tmp_path / 'runs.db'}") as runs:
        for made in (
            runs.submit("clerk", run, PROMPT),
            runs.follow(run).collect(),
            runs.decide(run),
            runs.send(run, "And be quick."),
            runs.stop(run),
            runs.status(run),
            runs.delete(run),
        ):
            with pytest.raises(InvalidRequest, match="id of a"):
                await made


async def test_unknown_state_is_refused(tmp_path: Path) -> None:
    async with Runs(f"sqlite:{tmp_path / 'runs.db'}") as runs:
        with pytest.raises(InvalidRequest, match="states are running, waiting"):
            await runs.list(state="open")


def test_name_of_an_agent_is_unicode() -> None:
    with pytest.raises(InvalidRequest, match="valid Unicode"):
        ls.Agent("sim:demo", name="\ud800")
