"""Calls that a person decides about: asked at once, or in another process after a restart."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec
import pytest

import llmstream as ls
from llmstream import files
from llmstream.agent import PendingCall
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.events import ToolApprovalRequest
from llmstream.files import taking
from llmstream.grammar import check
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel

KEY = b"a key that nobody else has"
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@ls.tool(needs_approval=lambda arguments: arguments["amount"] > 10)
async def pay(amount: int) -> str:
    """Pays."""
    ran.append(f"paid {amount}")
    return f"paid {amount}"


@ls.tool
async def look() -> str:
    """Looks."""
    ran.append("looked")
    return "seen"


PAYS = Turn(text="Well.", calls=(Call("look"), Call("pay", {"amount": 50})), usage=ls.Usage(3, 4, 7))


def agent(*turns: Turn | str, key: bytes | None = None) -> ls.Agent:
    model = ScriptedModel(*(turns or (PAYS, "Done.")))
    return ls.Agent(model, name="clerk", tools=[pay, look], approval_key=key)


async def suspended(key: bytes | None = None) -> tuple[ls.Suspension, list[ls.Event]]:
    run = agent(key=key).stream("Pay 50")
    events = [event async for event in run]
    assert check(events) == []
    assert run.finish_reason == "tool-calls"
    assert run.suspended is not None
    return run.suspended, events


async def test_run_without_approver_is_suspended() -> None:
    suspension, events = await suspended()
    (request,) = [e for e in events if isinstance(e, ToolApprovalRequest)]
    (pending,) = suspension.pending
    assert (pending.name, pending.arguments) == ("pay", '{"amount":50}')
    assert (request.tool_call_id, request.approval_id) == (pending.call_id, pending.approval_id)
    assert ran == ["looked"]
    assert [r.content for r in suspension.results] == ["seen"]
    assert suspension.usage_by_model == {"scripted:scripted": ls.Usage(3, 4, 7)}


async def test_predicate_false_needs_no_approval() -> None:
    run = agent(Turn(calls=(Call("pay", {"amount": 5}),)), "Done.").stream("Pay 5")
    await run.collect()
    assert (run.suspended, ran) == (None, ["paid 5"])


async def test_invalid_arguments_return_to_model() -> None:
    """No approval is requested for them."""
    run = agent(Turn(calls=(Call("pay", {"amount": "much"}),)), "Done.").stream("Pay")
    await run.collect()
    assert run.suspended is None
    assert run.statuses[0].result.is_error


async def test_failing_predicate_requires_approval() -> None:
    @ls.tool(needs_approval=lambda arguments: arguments["no such"])
    async def risky() -> None:
        raise AssertionError

    run = ls.Agent(ScriptedModel(Turn(calls=(Call("risky"),))), tools=[risky]).stream("Go")
    await run.collect()
    assert run.suspended is not None


@pytest.mark.parametrize("key", [None, KEY])
async def test_approved_call_runs_in_other_process(tmp_path: Path, key: bytes | None) -> None:
    """Finished calls do not run again."""
    suspension, _ = await suspended(key)
    path = tmp_path / "run.json"
    suspension.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = ls.Suspension.take(path)
    assert loaded == suspension
    assert not path.exists()
    run = agent("All paid.", key=key).resume(loaded, {loaded.pending[0].approval_id: ls.Approve()})
    events = [event async for event in run]
    assert check(events) == []
    assert ran == ["looked", "paid 50"]
    assert run.text == "All paid."
    assert [m.role for m in run.messages()] == ["user", "assistant", "tool", "assistant"]
    assert [r.content for r in run.messages()[2].tool_results] == ["seen", "paid 50"]
    assert run.total_usage.input_tokens is not None
    assert run.total_usage.input_tokens > 3
    assert run.messages()[1].sender == "clerk"


async def test_the_model_is_told_of_a_denied_call() -> None:
    suspension, _ = await suspended()
    run = agent("Pity.").resume(suspension, {suspension.pending[0].approval_id: ls.Deny("too much")})
    await run.collect()
    assert ran == ["looked"]
    assert "too much" in run.messages()[2].tool_results[1].content


async def test_undecided_call_suspends_run_again() -> None:
    two = Turn(calls=(Call("pay", {"amount": 20}), Call("pay", {"amount": 30})))
    first = agent(two).stream("Pay")
    await first.collect()
    assert first.suspended is not None
    a, b = first.suspended.pending
    second = agent(two).resume(first.suspended, {b.approval_id: True})
    await second.collect()
    assert ran == ["paid 30"]
    assert second.suspended is not None
    assert [p.approval_id for p in second.suspended.pending] == [a.approval_id]
    third = agent("Done.").resume(second.suspended, {a.approval_id: True})
    await third.collect()
    assert ran == ["paid 30", "paid 20"]
    assert [r.content for r in third.messages()[2].tool_results] == ["paid 20", "paid 30"]


async def test_a_suspension_is_used_once() -> None:
    suspension, _ = await suspended()
    decisions = {suspension.pending[0].approval_id: True}
    slow = agent("Done.").resume(suspension, decisions)
    await agent("Done.").resume(suspension, decisions).collect()
    with pytest.raises(ls.InvalidRequest, match="already resumed"):
        agent("Done.").resume(suspension, decisions)
    with pytest.raises(ls.InvalidRequest, match="already resumed"):
        await slow.collect()
    assert ran == ["looked", "paid 50"]


def altered(suspension: ls.Suspension) -> list[ls.Suspension]:
    replace = msgspec.structs.replace
    (pending,) = suspension.pending
    other = replace(pending, arguments='{"amount":99}')
    conversation = suspension.conversation.replace("50", "99")
    return [
        replace(suspension, pending=(other,)),
        replace(suspension, pending=(other,), conversation=conversation),
        replace(suspension, conversation=conversation),
        replace(suspension, results=()),
        replace(suspension, step=9),
        replace(suspension, seal="0" * 64),
    ]


@pytest.mark.parametrize("key", [None, KEY])
async def test_altered_suspension_is_refused(key: bytes | None) -> None:
    suspension, _ = await suspended(key)
    for forged in altered(suspension):
        with pytest.raises(ls.InvalidRequest, match="altered"):
            agent(key=key).resume(forged, {suspension.pending[0].approval_id: True})
    assert ran == ["looked"]


async def test_a_key_cannot_be_gone_around() -> None:
    unsigned, _ = await suspended(None)
    signed, _ = await suspended(KEY)
    for suspension, key in ((unsigned, KEY), (signed, None), (signed, b"another")):
        with pytest.raises(ls.InvalidRequest):
            agent(key=key).resume(suspension, {})


async def test_a_suspension_expires() -> None:
    model = ScriptedModel(PAYS)
    short = ls.Agent(model, tools=[pay, look], approval_ttl_s=-1)
    run = short.stream("Pay")
    await run.collect()
    assert run.suspended is not None
    with pytest.raises(ls.InvalidRequest, match="expired"):
        short.resume(run.suspended)


async def test_decisions_without_a_call_refused() -> None:
    suspension, _ = await suspended()
    with pytest.raises(ls.InvalidRequest, match="no call waits"):
        agent().resume(suspension, {"approval_x": True})
    with pytest.raises(ls.InvalidRequest, match="no call"):
        agent().resume(suspension, results=[ToolResult("x", "y")])
    with pytest.raises(ls.InvalidRequest, match="belongs to agent"):
        ls.Agent(ScriptedModel("x")).resume(suspension)


async def test_declared_calls_resume_with_results() -> None:
    spec = ls.ToolSpec("ask", "Asks a person.")
    first = ls.Agent(ScriptedModel(Turn(calls=(Call("ask"), Call("look")))), tools=[spec, look]).stream("Go")
    await first.collect()
    assert first.suspended is not None
    (pending,) = first.suspended.pending
    assert (pending.name, pending.approval_id) == ("ask", "")
    second = ls.Agent(ScriptedModel("Thanks."), tools=[spec, look])
    run = second.resume(first.suspended, results=[ToolResult(pending.call_id, "42")])
    events = [event async for event in run]
    assert check(events) == []
    assert ran == ["looked"]
    assert [r.content for r in run.messages()[2].tool_results] == ["42", "seen"]


@pytest.mark.parametrize("said", [ls.Approve(), True, ls.Deny("no"), False, None])
async def test_approver_is_asked_during_the_run(said: ls.Approve | ls.Deny | bool | None) -> None:
    shown: list[PendingCall] = []

    async def approve(pending: PendingCall) -> ls.Approve | ls.Deny | bool | None:
        shown.append(pending)
        return said

    run = ls.Agent(ScriptedModel(PAYS, "Done."), tools=[pay, look], approve=approve).stream("Pay")
    events = [event async for event in run]
    assert check(events) == []
    assert [str(p) for p in shown] == ['pay({"amount":50})']
    assert ("paid 50" in ran) == (said in (ls.Approve(), True))
    assert (run.suspended is not None) == (said is None)
    assert [e.approval_id for e in events if isinstance(e, ToolApprovalRequest)] == [shown[0].approval_id]


def test_pending_call_shows_all_characters() -> None:
    hidden = PendingCall("c", "pay", '{"to":"a\u202eb\x1b[2Kc"}')
    assert str(hidden) == 'pay({"to":"a\\u202eb\\x1b[2Kc"})'


async def test_suspended_run_messages_are_complete() -> None:
    run = agent().stream("Pay")
    await run.collect()
    results = run.messages()[-1].tool_results
    assert [r.content for r in results] == ["seen", "The call waits for a decision and has not run."]


def test_what_is_no_suspension_is_refused() -> None:
    for data in (b"{}", b"[", b'{"version":2,"id":"a","conversation":"","pending":[]}'):
        with pytest.raises(ls.DecodeError):
            ls.Suspension.from_json(data)


async def test_message_before_suspension_is_seen() -> None:
    run = agent().stream("Pay")
    async for event in run:
        if isinstance(event, ls.StepFinish):
            run.send("Be quick.")
    assert run.suspended is not None
    assert [m.text for m in run.suspended.unseen] == ["Be quick."]
    again = ls.Suspension.from_json(run.suspended.to_json())
    second = agent("Done.").resume(again, {again.pending[0].approval_id: True})
    await second.collect()
    assert [m.role for m in second.messages()] == ["user", "assistant", "tool", "user", "assistant"]


async def test_suspension_without_kind_is_refused() -> None:
    """The reader would take a result for one all the same, and the seal is made of what was read."""
    suspension, _ = await suspended()
    tree = msgspec.json.decode(suspension.to_json())
    assert ls.Suspension.from_json(msgspec.json.encode(dict(reversed(tree.items())))) == suspension
    for name, value in (("kind", None), ("is_error", False), ("noticed", 1)):
        changed = msgspec.json.decode(suspension.to_json())
        changed["results"][0] |= {name: value}
        if value is None:
            del changed["results"][0][name]
        with pytest.raises(ls.DecodeError, match="incomplete or was altered"):
            ls.Suspension.from_json(msgspec.json.encode(changed))


def test_damaged_suspension_stays_in_place(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"{")
    with pytest.raises(ls.DecodeError):
        ls.Suspension.take(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")
def test_only_a_plain_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(b"{}")
    (tmp_path / "link").symlink_to(tmp_path / "run.json")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(OSError, match=r"link|regular"):
            ls.Suspension.take(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link", "pipe", "run.json"]


@pytest.mark.skipif(os.name != "posix", reason="the lock of POSIX systems")
async def test_suspension_is_taken_without_lock(tmp_path: Path) -> None:
    suspension, _ = await suspended()
    path = tmp_path / "run.json"
    suspension.save(path)
    with taking(path), pytest.raises(ls.InvalidRequest, match="another process is resuming it"):
        ls.Suspension.take(path)
    assert not path.exists()


async def test_suspension_taken_meanwhile_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no locks, the removal decides."""
    suspension, _ = await suspended()
    path = tmp_path / "run.json"
    suspension.save(path)
    monkeypatch.setattr(files, "lock", lambda file: None)
    with pytest.raises(ls.InvalidRequest, match="already resumed"), taking(path):
        assert ls.Suspension.take(path) == suspension
        ls.Suspension.take(path)


def elsewhere() -> ls.Agent:
    spec = ls.ToolSpec("ext", "Runs elsewhere.", {"type": "object", "properties": {}})
    return ls.Agent(ScriptedModel(Turn(calls=(Call("ext", {}),)), "Done"), tools=[spec])


@pytest.mark.parametrize(("value", "content"), [("text", "text"), ({"a": 1}, '{"a":1}'), (None, "")])
async def test_results_may_be_values_by_call_id(value, content):
    agent = elsewhere()
    run = agent.stream("Go")
    await run.collect()
    resumed = agent.resume(run.suspended, results={run.suspended.pending[0].call_id: value})
    assert (await resumed.collect()).text == "Done"
    (result,) = [r for m in resumed.messages() for r in m.tool_results]
    assert (result.content, result.is_error, result.name) == (content, False, "ext")


@pytest.mark.parametrize("results", [["text"], 5, "text"])
async def test_what_is_no_result_is_refused(results):
    agent = elsewhere()
    run = agent.stream("Go")
    await run.collect()
    with pytest.raises(ls.InvalidRequest, match="results must be ToolResults"):
        agent.resume(run.suspended, results=results)


async def test_resumed_run_repeats_no_call_id() -> None:
    """A server gives each call the same id: the events of both halves of the run tell them apart."""
    ask = ls.ToolSpec("ask", "Asks the page.", {"type": "object", "properties": {}})
    turns = [Turn(calls=(Call("ask", {}, "c"),)) for _ in range(3)]
    clerk = ls.Agent(ScriptedModel(*turns, "Done."), tools=[ask])
    run = clerk.stream("Go")
    events = [event async for event in run]
    for given in ("c", "1/c", "c"):  # the id in the events; the call's own counts too
        assert run.suspended is not None
        run = clerk.resume(run.suspended, results=[ToolResult(given, f"for {given}")])
        events += [event async for event in run]
    seen = [event.tool_call_id for event in events if isinstance(event, ls.ToolCall | ls.ToolResult)]
    assert seen == ["c", "c", "1/c", "1/c", "2/c", "2/c"]
    results = [message.tool_results[0] for message in run.messages() if message.tool_results]
    assert [(result.tool_call_id, result.content) for result in results] == [
        ("c", "for c"),
        ("c", "for 1/c"),
        ("c", "for c"),
    ]


@pytest.mark.parametrize(("further", "shown"), [([], "0/c"), ([ls.Message.user("Again")], "c")])
async def test_later_run_of_a_turn_has_new_ids(further: list[ls.Message], shown: str) -> None:
    """A new run that goes on behind results, as where a page has the history; but not in another turn."""
    history = [
        ls.Message.user("Go"),
        ls.Message.assistant(ToolCall("c", "look", "{}")),
        ls.Message.tool([ToolResult("c", "seen")]),
    ]
    clerk = ls.Agent(ScriptedModel(Turn(calls=(Call("look", {}, "c"),)), "Done."), tools=[look])
    run = clerk.stream([*history, *further])
    assert [event.tool_call_id async for event in run if isinstance(event, ls.ToolCall)] == [shown]
