from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import msgspec
import pytest

import llmstream as ls
from llmstream.log import Logs
from llmstream.simulator import Call, Cut, Script, Simulator, Stall, Turn
from llmstream.testing import ScriptedModel
from llmstream.web import Conversation, Conversations, ConversationStore, Decision, View
from llmstream.web import Turn as StoredTurn
from llmstream.web import conversations as conversations_module
from llmstream.web.conversations import compacted, folded
from tests.log.sources import LateEnds

Make = Callable[..., Conversations]


@ls.tool(needs_approval=True)
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


async def ended(conversations: Conversations, view: View) -> View:
    """The view after its open run has ended."""
    assert view.open_run is not None
    async for _ in conversations.follow(view.open_run):
        pass
    return await conversations.view(view.id)


def text(view: View) -> str:
    """The texts of the last turn."""
    assert view.turns[-1].events is not None
    events = [ls.events.decode(bytes(one)) for one in view.turns[-1].events]
    return "".join([one.delta for one in events if isinstance(one, ls.TextDelta)])


def approval_of(view: View) -> str:
    """The approval that the last turn asks for."""
    asked = [ls.events.decode(bytes(one)) for one in view.turns[-1].events or ()]
    (approval,) = [one.approval_id for one in asked if isinstance(one, ls.ToolApprovalRequest)]
    return approval


def errors(view: View) -> list[ls.ErrorInfo]:
    assert view.turns[-1].events is not None
    events = [ls.events.decode(bytes(one)) for one in view.turns[-1].events]
    return [one.error for one in events if isinstance(one, ls.ErrorEvent)]


async def test_an_answer_is_stored(make: Make) -> None:
    conversations = make()
    view = await ended(conversations, await conversations.begin("Hello\nthere"))
    assert (view.title, view.open_run, view.waiting) == ("Hello there", None, False)
    assert text(view).startswith("You said: Hello there")
    assert [one.id for one in conversations.summaries()] == [view.id]


async def test_the_model_gets_the_history(make: Make) -> None:
    model = ScriptedModel(lambda request: "|".join(message.text for message in request.messages))
    conversations = make(ls.Agent(model))
    view = await ended(conversations, await conversations.begin("a"))
    view = await ended(conversations, await conversations.send(view.id, "b"))
    assert text(view) == "a|a|b"


@pytest.fixture
async def stalling() -> AsyncIterator[Simulator]:
    """Stalls in the middle of its first answer."""
    turns = Turn(text="One two three four.", fault=Stall(after_events=4)), Turn(text="Go on.")
    async with Simulator(Script(turns)) as simulator:
        yield simulator


def agent_of(simulator: Simulator) -> ls.Agent:
    return ls.Agent(ls.Model("openai:any", base_url=f"{simulator.url}/v1", api_key="key"))


async def test_one_run_at_a_time(make: Make, stalling: Simulator) -> None:
    conversations = make(agent_of(stalling))
    view = await conversations.begin("a")
    with pytest.raises(ls.InvalidRequest, match="in progress") as caught:
        await conversations.send(view.id, "b")
    assert caught.value.status == 409
    await conversations.stop(view.id)


async def test_stop_keeps_what_has_arrived(make: Make, stalling: Simulator) -> None:
    conversations = make(agent_of(stalling))
    begun = await conversations.begin("a")
    assert begun.open_run is not None
    async for event in conversations.follow(begun.open_run):
        if isinstance(event, ls.TextDelta):
            await conversations.stop(begun.id)
            break
    view = await ended(conversations, begun)
    assert text(view)
    assert [one.code for one in errors(view)] == ["stopped"]
    await ended(conversations, await conversations.send(view.id, "And now?"))
    request = stalling.requests[-1].request
    assert request is not None
    assert [message.text for message in request.messages] == ["a", text(view), "And now?"]


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        (Decision(True), "paid 1"),
        (Decision(True, arguments={"euros": 7}), "paid 7"),
        (Decision(False, "too much"), "denied: too much"),
    ],
)
async def test_a_decision_continues_a_run(make: Make, decision: Decision, result: str) -> None:
    conversations = make(ls.Agent("sim:demo", tools=[pay]))
    view = await ended(conversations, await conversations.begin("Pay"))
    assert view.waiting
    approval = approval_of(view)
    view = await ended(conversations, await conversations.decide(view.id, {approval: decision}))
    assert not view.waiting
    assert result in text(view)
    assert view.turns[-1].decisions == {approval: decision}
    with pytest.raises(ls.InvalidRequest, match="decided already") as caught:
        await conversations.decide(view.id, {approval: decision})
    assert caught.value.status == 409


async def seen_approval(conversations: Conversations, run: str | None) -> str:
    """The approval that an open run asks for, as soon as a page can see it."""
    assert run is not None
    async with aclosing(conversations.follow(run)) as events:
        async for event in events:
            if isinstance(event, ls.ToolApprovalRequest):
                return event.approval_id
    raise AssertionError("nothing was to be approved")


async def test_a_decision_before_the_end() -> None:
    """A page offers the buttons with the event, and a click may be quicker than the end of the log."""
    late = LateEnds()
    async with ls.open_logs(late) as logs:
        conversations = Conversations(ls.Agent("sim:demo", tools=[pay]), logs, ConversationStore())
        begun = await conversations.begin("Pay")
        approval = await seen_approval(conversations, begun.open_run)
        asyncio.get_running_loop().call_later(0.05, late.allowed.set)
        view = await ended(conversations, await conversations.decide(begun.id, {approval: Decision(True)}))
        assert "paid 1" in text(view)
    await conversations.aclose()


async def test_a_decision_while_another_runs(make: Make) -> None:
    """Calls of a step run in parallel: one may be decided while another one runs."""
    gate = asyncio.Event()

    @ls.tool
    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    model = ScriptedModel(Turn(calls=(Call("hold"), Call("pay", {"euros": 1}))), "Both done.")
    conversations = make(ls.Agent(model, tools=[pay, hold]))
    begun = await conversations.begin("Pay")
    approval = await seen_approval(conversations, begun.open_run)
    asyncio.get_running_loop().call_later(0.05, gate.set)
    view = await ended(conversations, await conversations.decide(begun.id, {approval: Decision(True)}))
    assert text(view) == "Both done."


async def test_decided_again_is_a_refusal(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the run that goes on is open, which nobody has to wait for."""
    monkeypatch.setattr(conversations_module, "_END_S", 3600.0)
    model = ScriptedModel(
        Turn(calls=(Call("pay", {"euros": 1}),)), Turn(text="Go on.", fault=Stall(after_events=2))
    )
    conversations = make(ls.Agent(model, tools=[pay]))
    view = await ended(conversations, await conversations.begin("Pay"))
    approval = approval_of(view)
    await conversations.decide(view.id, {approval: Decision(True)})
    with pytest.raises(ls.InvalidRequest, match="decided already") as caught:
        await conversations.decide(view.id, {approval: Decision(True)})
    assert caught.value.status == 409
    await conversations.stop(view.id)


async def test_arguments_that_do_not_fit(make: Make) -> None:
    """The run goes on waiting, so that another decision is possible."""
    conversations = make(ls.Agent("sim:demo", tools=[pay]))
    view = await ended(conversations, await conversations.begin("Pay"))
    approval = approval_of(view)
    with pytest.raises(ls.InvalidRequest) as caught:
        await conversations.decide(view.id, {approval: Decision(True, arguments={"euros": "x"})})
    assert caught.value.status == 400
    assert (await conversations.view(view.id)).waiting


async def test_calls_of_sub_agents_are_asked_about(make: Make) -> None:
    """And the result of such a call is in the view, as the page has seen it."""
    payer = ls.Agent(
        ScriptedModel(Turn(calls=(Call("pay", {"euros": 3}),)), "Paid."), name="payer", tools=[pay]
    )
    model = ScriptedModel(Turn(calls=(Call("payer", {"prompt": "Pay"}),)), "Done.")
    conversations = make(ls.Agent(model, tools=[payer.as_tool()]))
    view = await ended(conversations, await conversations.begin("Pay"))
    view = await conversations.decide(view.id, {approval_of(view): Decision(True)})
    view = await ended(conversations, view)
    assert not view.waiting
    assert view.turns[-1].events is not None
    events = [ls.events.decode(bytes(one)) for one in view.turns[-1].events]
    results = [one for one in events if isinstance(one, ls.ToolResult) and not one.preliminary]
    assert [(one.tool_name, one.result) for one in results] == [("pay", "paid 3"), ("payer", "Paid.")]


async def test_a_decision_without_a_run(make: Make, store: ConversationStore) -> None:
    """As a process leaves it that was killed before the run of the decision began: `test_kills` kills one."""
    conversations = make(ls.Agent("sim:demo", tools=[pay]))
    view = await ended(conversations, await conversations.begin("Pay"))
    approval = approval_of(view)

    def decide(stored: Conversation) -> None:
        made = {approval: Decision(False)}
        stored.turns.append(StoredTurn(run="web-lost", decisions=made, waited=stored.suspension))
        stored.suspension = ""

    store.update(view.id, decide)
    view = await conversations.view(view.id)
    assert (view.waiting, view.open_run, len(view.turns)) == (True, None, 1)
    view = await ended(conversations, await conversations.decide(view.id, {approval: Decision(True)}))
    assert any(b"paid" in bytes(event) for event in view.turns[-1].events or ())


async def test_a_prompt_cancels_what_waits(make: Make) -> None:
    conversations = make(ls.Agent("sim:demo", tools=[pay]))
    view = await ended(conversations, await conversations.begin("Pay"))
    view = await conversations.send(view.id, "Never mind")
    assert not view.waiting
    assert [turn.prompt for turn in view.turns] == ["Pay", "Never mind"]
    await ended(conversations, view)


async def test_retry_replaces_the_answer(make: Make) -> None:
    model = ScriptedModel("First.", Turn(text="Cut here.", fault=Cut(after_events=3)), "Second.")
    conversations = make(ls.Agent(model))
    view = await ended(conversations, await conversations.begin("a"))
    view = await ended(conversations, await conversations.send(view.id, "b"))
    assert errors(view)
    view = await ended(conversations, await conversations.retry(view.id))
    assert [turn.prompt for turn in view.turns] == ["a", "b"]
    assert (text(view), errors(view)) == ("Second.", [])
    assert [message.text for message in model.requests[-1].messages] == ["a", "First.", "b"]


async def test_errors_are_public_by_default(make: Make) -> None:
    for details, shown in ((False, "The connection"), (True, "scripted")):
        model = ScriptedModel(Turn(text="Cut here.", fault=Cut(after_events=3)))
        conversations = make(ls.Agent(model), details=details)
        view = await ended(conversations, await conversations.begin("a"))
        (error,) = errors(view)
        assert (error.provider is None) is not details
        assert error.message == error.public_message or details, shown


async def test_a_lost_run_is_closed(make: Make, store: ConversationStore) -> None:
    """Its process died, and the log has deleted its events: the conversation can be continued."""
    turn = StoredTurn(run="gone", prompt="a")
    store.add(Conversation(id="c", title="a", turns=[turn]))
    model = ScriptedModel(lambda request: "|".join(message.text for message in request.messages))
    conversations = make(ls.Agent(model))
    view = await conversations.view("c")
    assert [one.code for one in errors(view)] == ["producer-lost"]
    view = await ended(conversations, await conversations.send("c", "b"))
    assert text(view) == "a|b"


async def test_a_dead_producer_is_folded(make: Make, store: ConversationStore, logs: Logs) -> None:
    """What a run said before its process died is in the history of the next prompt."""
    live = await logs.start("r", ls.stream("sim:demo", "Hello"))
    await live.wait()
    store.add(Conversation(id="c", title="a", turns=[StoredTurn(run="r", prompt="Hello")]))
    model = ScriptedModel(lambda request: "|".join(message.text[:15] for message in request.messages))
    conversations = make(ls.Agent(model))
    view = await ended(conversations, await conversations.send("c", "b"))
    assert text(view) == "Hello|You said: Hello|b"


async def test_two_prompts_at_once(make: Make) -> None:
    """Of two tabs, one is first, and the other is told so."""
    conversations = make()
    view = await ended(conversations, await conversations.begin("a"))
    sent = [conversations.send(view.id, prompt) for prompt in "bc"]
    found = await asyncio.gather(*sent, return_exceptions=True)
    (refused,) = [one for one in found if isinstance(one, ls.InvalidRequest)]
    (begun,) = [one for one in found if isinstance(one, View)]
    assert refused.status == 409
    view = await ended(conversations, begun)
    assert len(view.turns) == 2


async def test_delete_stops_the_run(make: Make, stalling: Simulator) -> None:
    conversations = make(agent_of(stalling))
    view = await conversations.begin("a")
    assert view.open_run is not None
    await conversations.delete(view.id)
    events = [event async for event in conversations.follow(view.open_run)]
    assert isinstance(events[-1], ls.Finish)
    assert conversations.summaries() == []
    with pytest.raises(ls.InvalidRequest) as caught:
        await conversations.view(view.id)
    assert caught.value.status == 404


async def test_other_runs_are_not_for_pages(make: Make, logs: Logs) -> None:
    live = await logs.start("payroll", ls.stream("sim:demo", "Hello"))
    await live.wait()
    conversations = make()
    assert (await conversations.body("payroll")).status == 404
    view = await ended(conversations, await conversations.begin("Hello"))
    async with await conversations.body(view.turns[0].run) as body:
        assert body.status == 200


async def test_a_prompt_that_cannot_be_sent(make: Make, logs: Logs) -> None:
    """Nothing of it is left."""
    conversations = make()
    await logs.aclose()
    with pytest.raises(ls.LogError):
        await conversations.begin("Hello")
    assert conversations.summaries() == []


async def test_an_empty_prompt_is_refused(make: Make) -> None:
    with pytest.raises(ls.InvalidRequest, match="empty"):
        await make().begin(" \n")


async def test_views_are_json(make: Make) -> None:
    conversations = make()
    view = await ended(conversations, await conversations.begin("Hello"))
    found = msgspec.json.decode(msgspec.json.encode(view))
    assert found["openRun"] is None
    assert found["turns"][0]["events"][0]["type"] == "stream-start"


async def events_of(prompt: str, **options: object) -> list[ls.Event]:
    async with ls.Agent("sim:demo", **options).stream(prompt) as run:  # type: ignore[arg-type]
        return [event async for event in run]


@ls.tool
async def count(context: ls.ToolContext) -> str:
    """Count."""
    await context.report("one")
    await context.report("two")
    return "three"


async def test_deltas_are_joined() -> None:
    events = await events_of("Hello, how are you?")
    short = compacted(events)
    assert len([one for one in short if isinstance(one, ls.TextDelta)]) == 1
    assert folded(short) == folded(events)


async def test_results_replace_progress() -> None:
    events = await events_of("Count", tools=[count])
    assert any(isinstance(one, ls.ToolResult) and one.preliminary for one in events)
    results = [one for one in compacted(events) if isinstance(one, ls.ToolResult)]
    assert [(one.result, one.preliminary) for one in results] == [("three", False)]


async def test_progress_without_a_result_stays() -> None:
    events = await events_of("Count", tools=[count])
    last = max(i for i, one in enumerate(events) if isinstance(one, ls.ToolResult) and one.preliminary)
    results = [one.result for one in compacted(events[: last + 1]) if isinstance(one, ls.ToolResult)]
    assert results == ["one", "two"]


async def test_interleaved_blocks_stay_apart() -> None:
    events: list[ls.Event] = [
        ls.ToolInputDelta("a", "1"),
        ls.ToolInputDelta("b", "1"),
        ls.ToolInputDelta("c", "2"),
        ls.ToolInputDelta("d", "1"),
    ]
    assert compacted(events) == [
        ls.ToolInputDelta("ab", "1"),
        ls.ToolInputDelta("c", "2"),
        ls.ToolInputDelta("d", "1"),
    ]


async def test_steps_are_messages() -> None:
    messages = folded(await events_of("Count", tools=[count]))
    assert [message.role for message in messages] == ["assistant", "tool", "assistant"]
    assert messages[0].tool_calls[0].name == "count"
    assert messages[1].tool_results[0].content == "three"
    assert "three" in messages[2].text


async def test_results_of_an_earlier_run() -> None:
    """After an approval, the results come first; the model has to learn that the call has run."""
    (message,) = folded([ls.ToolResult("paid 3", "call-1", "pay")])
    assert message.text == 'The call of pay has run: "paid 3"'
