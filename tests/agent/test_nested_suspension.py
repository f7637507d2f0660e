"""A sub-agent whose call needs a person: the run above waits, is saved, and goes on within."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

import llmstream as ls
from llmstream.agent import PendingCall, nested_event
from llmstream.chats.content import ToolResult
from llmstream.events import ToolApprovalRequest
from llmstream.grammar import check
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@ls.tool
async def look(at: str) -> str:
    """Looks."""
    ran.append(f"look {at}")
    return f"seen {at}"


@ls.tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pays."""
    ran.append(f"pay {euros}")
    return f"paid {euros}"


TOKENS = ls.Usage(10, 1, 11)


def clerk(*turns: Turn | str, **options: object) -> ls.Agent:
    """The sub-agent: it looks and pays at once, then answers."""
    said = turns or (
        Turn(calls=(Call("look", {"at": "inner"}), Call("pay", {"euros": 5})), usage=TOKENS),
        Turn(text="All paid.", usage=TOKENS),
    )
    return ls.Agent(
        ScriptedModel(*said, model="small", repeat_last=True), name="clerk", tools=[look, pay], **options
    )


def boss(inner: ls.Agent, *turns: Turn | str, **options: object) -> ls.Agent:
    """The agent above: it looks and asks the clerk at once, then answers."""
    said = turns or (
        Turn(calls=(Call("look", {"at": "outer"}), Call("clerk", {"prompt": "Pay."})), usage=TOKENS),
        Turn(text="It is done.", usage=TOKENS),
    )
    model = ScriptedModel(*said, model="big")
    return ls.Agent(model, name="boss", tools=[look, inner.as_tool()], **options)


def rest(*turns: Turn | str) -> ls.Agent:
    """A clerk in another process, who has said the first turn before."""
    return clerk(*(turns or (Turn(text="All paid.", usage=TOKENS),)))


async def suspended(agent: ls.Agent) -> ls.Suspension:
    run = agent.stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    assert run.finish_reason == "tool-calls"
    assert run.suspended is not None
    inner = [found.event for event in events if (found := nested_event(event)) is not None]
    asked = [e.approval_id for e in inner if isinstance(e, ToolApprovalRequest)]
    assert asked == [p.approval_id for p in run.suspended.pending if p.approval_id]
    return ls.Suspension.from_json(run.suspended.to_json())


async def test_parent_run_waits_and_shows_why() -> None:
    run = boss(clerk()).stream("Go")
    await run.collect()
    assert run.suspended is not None
    (pending,) = run.suspended.pending
    assert str(pending) == 'clerk: pay({"euros":5})'
    assert pending.call_id.startswith(run.messages()[1].tool_calls[1].id + "/")
    assert ran == ["look outer", "look inner"]
    results = run.messages()[-1].tool_results
    assert [r.content for r in results] == [
        "seen outer",
        "The sub-agent of this call waits for a decision about one of its own calls.",
    ]


async def test_resume_inside_reruns_no_done_call() -> None:
    suspension = await suspended(boss(clerk()))
    ran.clear()
    inner = rest()
    outer = boss(inner, Turn(text="It is done.", usage=TOKENS))
    run = outer.resume(suspension, {suspension.pending[0].approval_id: ls.Approve()})
    events = [event async for event in run]
    assert check(events) == []
    assert ran == ["pay 5"]
    assert run.text == "It is done."
    assert [r.content for r in run.messages()[2].tool_results] == ["seen outer", "All paid."]
    asked = inner.model.requests[0].messages  # type: ignore[attr-defined]
    assert [r.content for r in asked[2].tool_results] == ["seen inner", "paid 5"]
    assert (
        "".join(n.event.delta for n in map(nested_event, events) if n and isinstance(n.event, ls.TextDelta))
        == "All paid."
    )


async def test_nested_usage_and_cost_count_once() -> None:
    def price(model: str, usage: ls.Usage) -> float:
        return 1.0 if model.endswith("small") else 100.0

    suspension = await suspended(boss(clerk(), price=price))
    assert suspension.cost_estimate == 101.0
    outer = boss(rest(), Turn(text="It is done.", usage=TOKENS), price=price)
    run = outer.resume(suspension, {suspension.pending[0].approval_id: True})
    await run.collect()
    assert run.usage_by_model == {"scripted:big": TOKENS + TOKENS, "scripted:small": TOKENS + TOKENS}
    assert run.cost_estimate == 202.0


async def test_sub_agent_reads_the_denial() -> None:
    suspension = await suspended(boss(clerk()))
    inner = rest("Pity.")
    run = boss(inner, "Well.").resume(suspension, {suspension.pending[0].approval_id: ls.Deny("no")})
    await run.collect()
    assert "pay 5" not in ran
    assert run.messages()[2].tool_results[1].content == "Pity."


async def test_undecided_nested_call_waits_again() -> None:
    """Two waiting calls stay distinct."""
    turn = Turn(calls=(Call("clerk", {"prompt": "a"}), Call("clerk", {"prompt": "b"})))
    pays = Turn(calls=(Call("pay", {"euros": 1}), Call("pay", {"euros": 2})))
    first = await suspended(boss(clerk(pays), turn))
    assert [p.arguments for p in first.pending] == ['{"euros":1}', '{"euros":2}'] * 2
    a1, a2, b1, b2 = (p.approval_id for p in first.pending)
    run = boss(clerk("Paid."), "Done.").resume(first, {a2: True})
    await run.collect()
    assert (ran, run.suspended is not None) == (["pay 2"], True)
    assert [r.name for r in run.messages()[2].tool_results] == ["clerk", "clerk"]
    second = ls.Suspension.from_json(run.suspended.to_json())  # type: ignore[union-attr]
    assert sorted(p.approval_id for p in second.pending) == sorted([a1, b1, b2])
    run = boss(clerk("Paid."), "Done.").resume(second, {a1: True, b1: False, b2: True})
    await run.collect()
    assert (sorted(ran), run.suspended) == (["pay 1", "pay 2", "pay 2"], None)
    assert [r.content for r in run.messages()[2].tool_results] == ["Paid.", "Paid."]


async def test_it_holds_at_any_depth() -> None:
    def middle(inner: ls.Agent, *turns: Turn | str) -> ls.Agent:
        said = turns or (Turn(calls=(Call("clerk", {"prompt": "?"}),)), "Middle.")
        return ls.Agent(ScriptedModel(*said), name="middle", tools=[inner.as_tool()])

    def top(inner: ls.Agent, *turns: Turn | str) -> ls.Agent:
        said = turns or (Turn(calls=(Call("middle", {"prompt": "?"}),)), "Top.")
        return ls.Agent(ScriptedModel(*said), name="top", tools=[inner.as_tool()])

    run = top(middle(clerk())).stream("Go")
    await run.collect()
    assert run.suspended is not None
    (pending,) = run.suspended.pending
    assert (str(pending), pending.call_id.count("/")) == ('clerk: pay({"euros":5})', 2)
    loaded = ls.Suspension.from_json(run.suspended.to_json())
    again = top(middle(rest(), "Middle."), "Top.").resume(loaded, {pending.approval_id: True})
    assert (await again.collect()).text == "Top."
    assert ran == ["look inner", "pay 5"]


async def test_nested_declared_calls_get_results() -> None:
    ask = ls.ToolSpec("ask", "Asks a person.")

    def agents(*turns: Turn | str) -> ls.Agent:
        inner = ls.Agent(ScriptedModel(*turns), name="clerk", tools=[ask])
        return boss(inner, Turn(calls=(Call("clerk", {"prompt": "?"}),)), "Done.")

    suspension = await suspended(agents(Turn(calls=(Call("ask"),))))
    (pending,) = suspension.pending
    run = agents("Thanks.").resume(suspension, results=[ToolResult(pending.call_id, "42")])
    await run.collect()
    assert run.messages()[2].tool_results[0].content == "Thanks."


@pytest.mark.parametrize("key", [None, b"secret"])
async def test_what_was_altered_within_is_refused(key: bytes | None) -> None:
    replace = msgspec.structs.replace
    suspension = await suspended(boss(clerk(), approval_key=key))
    (pending,) = suspension.pending
    ((call_id, inner),) = suspension.inner.items()
    (within,) = inner.pending
    dear = replace(within, arguments='{"euros":500}')
    conversation = inner.conversation.replace("5}", "500}")
    forged = [
        replace(suspension, inner={call_id: replace(inner, pending=(dear,))}),
        replace(suspension, inner={call_id: replace(inner, pending=(dear,), conversation=conversation)}),
        replace(suspension, pending=(replace(pending, arguments='{"euros":500}'),)),
        replace(suspension, pending=(replace(pending, agent=""),)),
        replace(suspension, inner={"other": inner}),
        replace(suspension, inner={}),
    ]
    for one in forged:
        with pytest.raises(ls.InvalidRequest, match="altered"):
            boss(rest(), approval_key=key).resume(one, {pending.approval_id: True})


async def test_forged_nested_call_is_refused() -> None:
    """What is shown must be what waits inside, even where all is sealed again."""
    suspension = await suspended(boss(clerk()))
    (pending,) = suspension.pending
    shown = msgspec.structs.replace(pending, arguments='{"euros":1}')
    forged = ls.Suspension.sealed(
        suspension.messages, [], suspension.results, inner=suspension.inner, agent="boss",
        step=0, usage_by_model={}, cost_estimate=None, key=None, ttl_s=None,
    )  # fmt: skip
    forged = msgspec.structs.replace(forged, pending=(shown,))
    with pytest.raises(ls.InvalidRequest):
        boss(rest()).resume(forged, {pending.approval_id: True})
    with pytest.raises(ls.InvalidRequest, match="do not match"):
        _ = forged.own


async def test_nested_suspension_is_used_once() -> None:
    """At every depth; a second use is refused before anything runs."""
    suspension = await suspended(boss(clerk()))
    decisions = {suspension.pending[0].approval_id: True}
    await boss(rest(), "Done.").resume(suspension, decisions).collect()
    assert ran.count("pay 5") == 1
    with pytest.raises(ls.InvalidRequest, match="already resumed"):
        boss(rest(), "Done.").resume(suspension, decisions)
    ((_, inner),) = suspension.inner.items()
    with pytest.raises(ls.InvalidRequest, match="already resumed"):
        rest().resume(inner, decisions)


@pytest.mark.parametrize("inner", [None, b"another key"])
async def test_failed_resume_leaves_it_unused(inner: bytes | None) -> None:
    """The sub-agent cannot continue; the suspension can be used later."""
    suspension = await suspended(boss(clerk()))
    decisions = {suspension.pending[0].approval_id: True}
    wrong = (
        boss(clerk(approval_key=inner)) if inner else ls.Agent(ScriptedModel("x"), name="boss", tools=[look])
    )
    ran.clear()
    with pytest.raises(ls.InvalidRequest, match=r"not a tool of this agent|not signed"):
        await wrong.resume(suspension, decisions).collect()
    assert ran == []
    await boss(rest(), "Done.").resume(suspension, decisions).collect()
    assert ran == ["pay 5"]


@pytest.mark.parametrize("said", [True, False, None])
async def test_sub_agent_inherits_the_approver(said: bool | None) -> None:
    shown: list[PendingCall] = []

    def approve(pending: PendingCall) -> bool | None:
        shown.append(pending)
        return said

    run = boss(clerk(), approve=approve).stream("Go")
    events = [event async for event in run]
    assert check(events) == []
    assert [str(p) for p in shown] == ['pay({"euros":5})']
    assert ("pay 5" in ran) == bool(said)
    assert (run.suspended is None) == (said is not None)
    assert ran.count("look inner") == 1


async def test_sub_agent_and_sibling_both_wait() -> None:
    turn = Turn(calls=(Call("pay", {"euros": 1}), Call("clerk", {"prompt": "?"})))

    def agents(inner: ls.Agent, *turns: Turn | str) -> ls.Agent:
        return ls.Agent(ScriptedModel(*turns), name="boss", tools=[pay, inner.as_tool()])

    suspension = await suspended_with_own(agents(clerk(), turn))
    own, within = suspension.pending
    run = agents(rest(), "Done.").resume(suspension, {own.approval_id: True})
    await run.collect()
    assert run.suspended is not None
    assert [p.approval_id for p in run.suspended.pending] == [within.approval_id]
    run = agents(rest(), "Done.").resume(run.suspended, {within.approval_id: True})
    await run.collect()
    assert [r.content for r in run.messages()[2].tool_results] == ["paid 1", "All paid."]
    assert ran == ["look inner", "pay 1", "pay 5"]


async def suspended_with_own(agent: ls.Agent) -> ls.Suspension:
    run = agent.stream("Go")
    await run.collect()
    assert run.suspended is not None
    assert [p.agent for p in run.suspended.pending] == ["", "clerk"]
    return run.suspended


def spec(name: str) -> ls.ToolSpec:
    return ls.ToolSpec(name, "Runs elsewhere.", {"type": "object", "properties": {"q": {"type": "string"}}})


def answered(*calls: tuple[str, str, str]) -> bytes:
    """A stream of Chat Completions: calls by id, name and arguments, or text where there are none."""
    named = [
        {"index": n, "id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (i, name, arguments) in enumerate(calls)
    ]
    delta = {"tool_calls": named} if named else {"content": "Done."}
    reason = "tool_calls" if named else "stop"
    chunk = {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


@pytest.mark.parametrize("key", [None, b"key"])
async def test_slash_in_id_is_no_sub_agent_call(serve: Any, key: bytes | None) -> None:
    """The model asks `sub` as "x" and a tool as "x/y"; the sub-agent's model asks another as "y"."""

    async def vendor(request: web.Request) -> web.Response:
        body = await request.json()
        names = {tool["function"]["name"] for tool in body["tools"]}
        if any(message["role"] == "tool" for message in body["messages"]):
            found = answered()
        elif "sub" in names:
            found = answered(("x", "sub", '{"prompt":"p"}'), ("x/y", "ext", '{"q":"harmless"}'))
        else:
            found = answered(("y", "ext2", '{"q":"dangerous"}'))
        return web.Response(body=found, content_type="text/event-stream")

    model = ls.Model("openai:m", base_url=await serve(vendor), api_key="a-key")
    inner = ls.Agent(model, name="sub", tools=[spec("ext2")])
    agent = ls.Agent(model, name="a", tools=[inner.as_tool("sub", "Asks."), spec("ext")], approval_key=key)
    run = agent.stream("Go.")
    await run.collect()
    assert run.suspended is not None
    pending = {p.call_id: p.name for p in run.suspended.pending}
    assert pending == {"x/y": "ext", "x/y#2": "ext2"}
    again = agent.resume(run.suspended, {}, results=[ToolResult("x/y", "of ext")])
    await again.collect()
    assert again.suspended is not None
    (left,) = again.suspended.pending
    assert left.name == "ext2"
    last = agent.resume(again.suspended, {}, results=[ToolResult(left.call_id, "of ext2")])
    await last.collect()
    assert last.suspended is None
    given = {r.tool_call_id: r.content for m in last.messages() for r in m.tool_results}
    assert given == {"x": "Done.", "x/y": "of ext"}


async def test_two_waiting_calls_of_one_id_refused() -> None:
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("ext"), Call("ext"))), "Done."), tools=[spec("ext")])
    run = agent.stream("Go.")
    await run.collect()
    assert run.suspended is not None
    first, second = run.suspended.pending
    made = type(run.suspended).sealed(
        run.suspended.messages,
        [first, msgspec.structs.replace(second, call_id=first.call_id)],
        [],
        agent="",
        step=1,
        usage_by_model={},
        cost_estimate=None,
        key=None,
        ttl_s=None,
    )
    with pytest.raises(ls.InvalidRequest, match="two waiting calls"):
        agent.resume(made, {}, results=[ToolResult(run.suspended.pending[0].call_id, "one")])
    assert ran == []


@pytest.mark.parametrize("digest", ["ü", "\ud800", "", "x" * 64])
async def test_odd_digest_is_altered_suspension(digest: str) -> None:
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("ext"),)), "Done."), tools=[spec("ext")])
    run = agent.stream("Go.")
    await run.collect()
    assert run.suspended is not None
    pending = tuple([msgspec.structs.replace(p, digest=digest) for p in run.suspended.pending])
    for altered in (
        msgspec.structs.replace(run.suspended, seal=digest),
        msgspec.structs.replace(run.suspended, pending=pending),
    ):
        with pytest.raises(ls.InvalidRequest, match="altered"):
            agent.resume(altered, {}, results=[ToolResult(run.suspended.pending[0].call_id, "one")])


async def test_expired_claims_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from llmstream.agent import suspension

    monkeypatch.setattr(
        suspension, "_claimed", {f"old{n}": 1.0 for n in range(2000)} | {"open": float("inf")}
    )
    monkeypatch.setattr(suspension, "_next_look", 1000)
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("ext"),)), "Done."), tools=[spec("ext")])
    run = agent.stream("Go.")
    await run.collect()
    assert run.suspended is not None
    await agent.resume(
        run.suspended, {}, results=[ToolResult(run.suspended.pending[0].call_id, "one")]
    ).collect()
    assert set(suspension._claimed) == {"open", run.suspended.id}
