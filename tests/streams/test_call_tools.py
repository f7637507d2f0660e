"""The loop by hand: calls that a person decides about, and calls that begin before the response is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import llmstream as ls
from llmstream.agent import PendingCall
from llmstream.simulator import Call, Cut, Turn
from llmstream.testing import ScriptedModel

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@ls.tool(needs_approval=lambda arguments: arguments["euros"] > 10)
async def pay(euros: int) -> str:
    """Pays."""
    ran.append(f"pay {euros}")
    return f"paid {euros}"


@ls.tool
async def look() -> str:
    """Looks."""
    ran.append("look")
    return "seen"


PAYS = Turn(calls=(Call("pay", {"euros": 50}), Call("look"), Call("pay", {"euros": 5})))


def stream(*turns: Turn | str, tools: tuple[object, ...] = (pay, look)) -> ls.EventStream:
    return ScriptedModel(*turns).stream("Go", tools=tools)


@pytest.mark.parametrize("said", [True, ls.Approve(), False, ls.Deny("too dear")])
async def test_manual_loop_asks_the_approver(said: bool | ls.Approve | ls.Deny) -> None:
    shown: list[str] = []

    async def approve(pending: PendingCall) -> bool | ls.Approve | ls.Deny:
        await asyncio.sleep(0)
        shown.append(str(pending))
        return said

    async with stream(PAYS, "Done.") as answer:
        statuses = await answer.call_tools(approve=approve)
        assert shown == ['pay({"euros":50})']
        agreed = said in (True, ls.Approve())
        assert ("pay 50" in ran) == agreed
        assert [s.error is None for s in statuses] == [agreed, True, True]
        assert await answer.call_tools(approve=approve) == []
        assert answer.text == "Done."
    results = answer.messages()[2].tool_results
    assert len(results) == 3
    assert ("too dear" in results[0].content) == (said == ls.Deny("too dear"))


async def test_call_waits_for_decision_then_runs() -> None:
    async with stream(PAYS, "Done.") as answer:
        assert [s.name for s in await answer.call_tools()] == ["look", "pay"]
        (waiting,) = answer.pending_calls
        assert (waiting.name, waiting.arguments) == ("pay", '{"euros":50}')
        assert await answer.call_tools() == []  # nobody has decided: nothing runs, nothing goes on
        assert [event async for event in answer] == []
        with pytest.raises(ls.InvalidRequest, match="waits for a decision"):
            await answer.call_tools({"another": True})
        assert [s.name for s in await answer.call_tools({waiting.id: True})] == ["pay"]
        assert answer.pending_calls == []
        assert (await answer.collect()).text == "Done."
    assert ran == ["look", "pay 5", "pay 50"]
    assert [r.content for r in answer.messages()[2].tool_results] == ["paid 50", "seen", "paid 5"]


async def test_undecided_call_asks_approver_again() -> None:
    said: list[bool | None] = [None, True]
    async with stream(PAYS, "Done.") as answer:
        assert len(await answer.call_tools(approve=lambda pending: said.pop(0))) == 2
        assert len(await answer.call_tools(approve=lambda pending: said.pop(0))) == 1
    assert ran.count("pay 50") == 1


async def test_waiting_call_accepts_outside_result() -> None:
    async with stream(PAYS, "Done.") as answer:
        await answer.call_tools()
        (waiting,) = answer.pending_calls
        answer.add_tool_results(ls.chats.ToolResult(waiting.id, "paid by hand"))
        assert (await answer.collect()).text == "Done."


async def test_raising_approver_completes_results() -> None:
    """Every call has a result then."""

    def approve(pending: PendingCall) -> bool:
        raise LookupError("nobody is in")

    async with stream(PAYS, "Done.") as answer:
        with pytest.raises(LookupError):
            await answer.call_tools(approve=approve)
        assert len(answer.messages()[2].tool_results) == 3
        assert (await answer.collect()).text == "Done."


async def others() -> None:
    """Lets every other task go on until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


class Slow:
    """An eager tool that counts what began and what was cleaned up."""

    def __init__(self, ends: bool) -> None:
        self.began, self.cleaned = 0, 0

        @ls.tool(eager=True)
        async def slow(n: int) -> int:
            self.began += 1
            try:
                await (asyncio.sleep(0) if ends else asyncio.Event().wait())
                return n
            finally:
                await asyncio.sleep(0.001)  # cleanup that takes its time
                self.cleaned += 1

        self.tool = slow


EAGER = Turn(calls=(Call("slow", {"n": 1}), Call("look"), Call("slow", {"n": 2})), text="Well.")


async def test_eager_call_starts_when_complete() -> None:
    """Other calls start when the response is complete."""
    slow = Slow(ends=True)
    at: dict[str, int] = {}
    async with stream(EAGER, "Done.", tools=(slow.tool, look)) as answer:
        async for event in answer:
            await others()
            if isinstance(event, ls.ToolCall):
                at[f"{event.tool_name} {event.input}"] = slow.began
        assert list(at.values()) == [1, 1, 2]
        assert ran == []  # the patient one
        statuses = await answer.call_tools()
        assert [s.result.content for s in statuses] == ["1", "seen", "2"]
        assert await answer.call_tools() == []
        assert answer.text == "Done."
    assert slow.began == slow.cleaned == 2


@pytest.mark.parametrize("clean", [True, False])
async def test_failed_response_cancels_eager_calls(clean: bool) -> None:
    """Their cleanup is awaited."""
    slow = Slow(ends=False)
    turn = Turn(calls=EAGER.calls, fault=Cut(after_events=9, clean=clean))
    with pytest.raises(ls.LLMStreamError):
        async for _ in (answer := stream(turn, tools=(slow.tool, look))):
            await others()
    assert slow.began == slow.cleaned == 1
    assert await answer.call_tools() == []
    assert [m.role for m in answer.messages()] == ["user"]
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("how", ["leave", "break", "cancel", "never called"])
async def test_left_stream_cancels_eager_calls(how: str) -> None:
    """Their cleanup is awaited."""
    slow = Slow(ends=False)
    answer = stream(EAGER, "Done.", tools=(slow.tool, look))

    async def read() -> None:
        async with answer:
            async for event in answer:
                await others()
                if isinstance(event, ls.ToolCall) and how != "never called":
                    if how == "cancel":
                        task = asyncio.current_task()
                        assert task is not None
                        task.cancel()
                        await asyncio.sleep(0)
                    break

    task = asyncio.create_task(read())
    await asyncio.wait([task])
    assert task.cancelled() == (how == "cancel")
    assert slow.began == slow.cleaned >= 1
    assert len(asyncio.all_tasks()) == 1


async def test_call_needing_approval_is_not_eager() -> None:
    @ls.tool(eager=True, needs_approval=True)
    async def risky() -> str:
        ran.append("risky")
        return "done"

    async with stream(Turn(calls=(Call("risky"), Call("risky"))), "Done.", tools=(risky,)) as answer:
        await answer.collect()
        await others()
        assert ran == []
        assert await answer.call_tools() == []
        await answer.call_tools({call.id: True for call in answer.pending_calls})
        assert ran == ["risky", "risky"]


async def test_cancelled_loop_has_all_results() -> None:
    """A manual tool loop, cancelled within a tool."""
    slow = Slow(ends=False)
    async with stream(EAGER, "Done.", tools=(slow.tool, look)) as answer:
        task = asyncio.create_task(answer.call_tools())
        while slow.began < 2:
            await others()
        await others()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slow.cleaned == 2
        results = answer.messages()[2].tool_results
        assert ["cancelled" in r.content for r in results] == [True, False, True]
        assert (await answer.collect()).text == "Done."


async def test_leaving_closes_a_progressing_tool() -> None:
    """The tool runs in a manual loop."""
    closed = []

    @ls.tool(eager=True)
    async def steps() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    async with stream(Turn(calls=(Call("steps"),)), tools=(steps,)) as answer:
        await answer.collect()
        await others()
    assert closed == [True]


async def test_total_deadline_covers_manual_tools() -> None:
    ended: list[str] = []

    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cleaned up")
        return "never"

    model = ScriptedModel(Turn(calls=(Call("hang"),)), "Done.")
    stream = model.stream("Go", tools=[hang], deadlines=ls.Deadlines(total_s=0.05))
    with pytest.raises(ls.DeadlineExceeded) as caught:
        await stream.call_tools()
    assert caught.value.reason == "total"
    assert ended == ["cleaned up"]
    (result,) = stream.messages()[-1].tool_results
    assert result.is_error


@pytest.mark.parametrize("eager", [False, True])
async def test_manual_tool_knows_its_deadline(eager: bool) -> None:
    """It knows the conversation too."""
    known: list[ls.ToolContext] = []

    @ls.tool(eager=eager)
    async def look(context: ls.ToolContext) -> str:
        """Look."""
        known.append(context)
        assert 0 < (context.remaining_s or 0) <= 5
        return "seen"

    model = ScriptedModel(Turn(calls=(Call("look"),)), Turn(calls=(Call("look"),)), "Done.")
    async with model.stream("Go", tools=[look], deadlines=ls.Deadlines(total_s=5)) as stream:
        while statuses := await stream.call_tools():
            assert [status.error for status in statuses] == [None]
    assert [context.step for context in known] == [0, 1]
    assert [context.messages[0].text for context in known] == ["Go", "Go"]
    assert known[0].call_id == "call_0_0"


async def test_call_approved_with_other_arguments():
    notes = []

    @ls.tool(needs_approval=True)
    async def pay(euros: int, context: ls.ToolContext) -> str:
        """Pay."""
        notes.append(context.note)
        return f"{euros} paid"

    model = ScriptedModel(Turn(calls=(Call("pay", {"euros": 3}),)), "Done.")
    stream = model.stream("Go", tools=[pay])
    await stream.collect()
    (call,) = stream.pending_calls
    with pytest.raises(ls.InvalidRequest, match="do not fit"):
        await stream.call_tools({call.id: ls.Approve(arguments={"euros": "many"})})
    await stream.call_tools({call.id: ls.Approve(arguments={"euros": 2}, note="half")})
    await stream.collect()
    said, result = model.requests[1].messages[-2:]
    assert said.tool_calls[0].arguments == '{"euros":2}'
    assert result.tool_results[0].content == "2 paid"
    assert notes == ["half"]
