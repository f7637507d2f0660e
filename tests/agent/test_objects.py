"""The final answer of a run as a value: typed partials over its steps, validated and repaired at the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider
from llmstream.simulator import Call, Cut, Simulator, Turn
from llmstream.structured import OutputMode
from llmstream.testing import ScriptedModel
from llmstream.transport.sessions import close_session


class Trip(msgspec.Struct):
    city: str
    days: int


@ls.tool
async def look(at: str = "") -> str:
    """Looks."""
    return "seen"


@ls.tool(needs_approval=True)
async def book() -> str:
    """Books."""
    return "booked"


GOOD = '{"city": "Oslo or so", "days": 3}'
BAD = '{"city": "Oslo", "days": "three"}'
LOOKS = Turn(text="Let me look {first}.", calls=(Call("look"),))


def agent(*turns: Turn | str, wanted: object = Trip, **options: object) -> ls.Agent:
    model = ScriptedModel(*turns, repeat_last=True)
    return ls.Agent(model, tools=[look, book], output=wanted, **options)


async def test_partials_then_the_validated_value() -> None:
    async with agent(LOOKS, GOOD).stream("Go") as run:
        values = [value async for value in run.objects()]
    assert values[-1] == run.object == Trip("Oslo or so", 3)
    assert len(values) > 2
    assert all(isinstance(value, Trip) for value in values)
    assert values[0].city
    assert values[0].city in "Oslo or so"
    assert values[0].days is msgspec.UNSET
    assert [s.name for s in run.statuses] == ["look"]


async def test_list_elements_come_once_complete() -> None:
    text = '{"items": [{"city": "Oslo", "days": 1}, {"city": "Lima", "days": 2}]}'
    run = agent(LOOKS, text, wanted=list[Trip]).stream("Go")
    assert [value async for value in run.objects()] == run.object == [Trip("Oslo", 1), Trip("Lima", 2)]


async def test_invalid_output_repaired_in_the_run() -> None:
    run = agent(LOOKS, BAD, GOOD).stream("Go")
    values = [value async for value in run.objects()]
    assert values[-1] == run.object == Trip("Oslo or so", 3)
    told = [m.text for m in run.messages() if m.role == "user"][1]
    assert "days" in told
    assert len(run.steps) == 3
    assert run.error is None


async def test_repair_bounded_error_has_the_output() -> None:
    run = agent(BAD, wanted=ls.Output(Trip, repair=2)).stream("Go")
    with pytest.raises(ls.InvalidOutput, match="days") as raised:
        async for _ in run.objects():
            pass
    assert len(run.steps) == 3
    assert raised.value.partial is not None
    assert raised.value.partial.text == BAD
    with pytest.raises(ls.InvalidOutput):
        _ = run.object
    limited = agent(BAD, wanted=ls.Output(Trip, repair=5), max_steps=1).stream("Go")
    with pytest.raises(ls.InvalidOutput):
        await anext(aiter([value async for value in limited.objects()]))
    assert len(limited.steps) == 1


async def test_object_after_collect_sans_partials() -> None:
    run = agent(LOOKS, GOOD).stream("Go")
    with pytest.raises(ls.InvalidRequest, match="not complete"):
        _ = run.object
    await run.collect()
    assert run.object == Trip("Oslo or so", 3)


async def test_waiting_run_has_no_object_yet() -> None:
    one = agent(Turn(calls=(Call("book"),)))
    run = one.stream("Go")
    assert [value async for value in run.objects()] == []
    assert run.suspended is not None
    with pytest.raises(ls.InvalidRequest):
        _ = run.object
    decisions = {p.approval_id: True for p in run.suspended.pending}
    again = agent(GOOD).resume(run.suspended, decisions)
    assert [value async for value in again.objects()][-1] == Trip("Oslo or so", 3)


async def test_run_stopped_early_has_no_object() -> None:
    run = agent(LOOKS, max_steps=1).stream("Go")
    with pytest.raises(ls.InvalidOutput):
        _ = [value async for value in run.objects()]


async def test_a_run_that_fails_raises_what_failed() -> None:
    run = agent(Turn(text=GOOD, fault=Cut(after_events=4))).stream("Go")
    with pytest.raises(ls.LLMStreamError) as raised:
        _ = [value async for value in run.objects()]
    assert not isinstance(raised.value, ls.InvalidOutput)


async def test_left_early_the_run_is_over() -> None:
    async with agent(LOOKS, GOOD).stream("Go") as run:
        async for _ in run.objects():
            break
    assert run.messages()[-1].role == "assistant"


class LooksThenAnswers:
    """Calls the tool first, then answers as it was asked to: by the tool for that, or in text."""

    def turn(self, request: ls.Request, number: int) -> Turn:
        if not any(message.tool_results for message in request.messages):
            return LOOKS
        by_tool = [t.name for t in request.tools if t.name not in ("look", "book")]
        return Turn(calls=(Call(by_tool[0], GOOD),)) if by_tool else Turn(text=GOOD)


@pytest.mark.parametrize("mode", ["json_schema", "tool", "prompt"])
@pytest.mark.parametrize("wire", ["sim", "sim-anthropic", "sim-gemini", "sim-openai-responses", "sim-ollama"])
async def test_over_http_with_tools_beside_it(wire: str, mode: OutputMode) -> None:
    sim: Any = find_provider(wire)
    async with Simulator(LooksThenAnswers(), dialects=[sim.dialect]) as server:
        provider = Provider(
            name=wire, dialect=sim.dialect, base_url=server.url + sim.path, key_required=False
        )
        model = ls.Model(f"{wire}:m", provider=provider)
        wanted = ls.Output(Trip, mode=mode)
        run = ls.Agent(model, tools=[look, book], output=wanted).stream("Where to?")
        values = [value async for value in run.objects()]
        assert values[-1] == run.object == Trip("Oslo or so", 3)
        assert [status.name for status in run.statuses] == ["look"]
        await close_session()
