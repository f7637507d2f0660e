"""Answers that the simulator keeps: made to their end, read on, ended."""

from __future__ import annotations

import asyncio

import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.simulator import Call, Cut, Pace, Script, Simulator, Stall, Turn
from llmstream.streams import ResumeToken

KEPT = {"openai": {"background": True, "store": True}}


def model(simulator):
    retry = ls.Retry(max_retries=2, max_wait_s=0.0)
    return ls.Model("openai-responses:gpt-5", base_url=f"{simulator.url}/v1", api_key="none", retry=retry)


def turn(**options):
    calls = (Call("weather", {"city": "Oslo"}),)
    return Turn(reasoning="Let me see.", text="One moment please.", calls=calls, **options)


async def test_cut_response_is_completed_and_read() -> None:
    async with Simulator(Script((turn(),))) as simulator:
        expected = [event async for event in model(simulator).stream("Hi", background=True)]
    assert check(expected) == []
    for fault in (Cut, lambda **options: Cut(clean=True, **options)):
        for count in range(1, len(expected)):
            async with Simulator(Script((turn(fault=fault(after_events=count)),))) as simulator:
                stream = model(simulator).stream("Hi", background=True)
                events = [event async for event in stream]
                assert [e for e in events if type(e) is not ls.ResponseMetadata] == [
                    e for e in expected if type(e) is not ls.ResponseMetadata
                ]


async def test_unstored_response_ends_in_its_fault() -> None:
    async with Simulator(Script((turn(fault=Cut(after_events=5)),))) as simulator:
        with pytest.raises(ls.ConnectionLost):
            await model(simulator).stream("Hi").collect()
        assert len(simulator.requests) == 1


async def test_an_answer_nobody_knows_is_not_found() -> None:
    async with Simulator() as simulator:
        with pytest.raises(ls.NotFound, match="Response with id 'resp_x' not found"):
            await model(simulator).reattach(ResumeToken("openai-responses", "gpt-5", "resp_x")).collect()


@pytest.mark.llm_virtual_clock
async def test_it_is_made_while_nobody_reads() -> None:
    script = Script((Turn(text="one two three four", pace=Pace(delta_s=20.0), fault=Stall(after_events=4)),))
    async with Simulator(script) as simulator:
        async with model(simulator).stream("Hi", background=True) as stream:
            async for event in stream:
                if type(event) is ls.TextDelta:
                    break
            token = stream.resume_token
        await asyncio.sleep(61.0)
        rest = model(simulator).reattach(token)
        async with asyncio.timeout(0.1):  # it is all there
            await rest.collect()
        assert stream.text + rest.text == "one two three four"


async def test_cancelled_response_informs_reader() -> None:
    script = Script((Turn(text="one two three four", pace=Pace(delta_s=30.0)),))
    async with Simulator(script) as simulator:
        async with model(simulator).stream("Hi", background=True) as stream:
            async for event in stream:
                if type(event) is ls.TextDelta:
                    break
            token = stream.resume_token
            assert await stream.cancel()
        whole = model(simulator).reattach(token, from_start=True)
        async with asyncio.timeout(2):
            await whole.collect()
        assert (whole.text, whole.finish_reason, whole.accumulator.raw_finish_reason) == (
            "one",
            "other",
            "cancelled",
        )


async def test_the_key_is_asked_for_here_too() -> None:
    async with Simulator(api_keys=["right"]) as simulator:
        with pytest.raises(ls.AuthenticationError):
            await model(simulator).cancel(ResumeToken("openai-responses", "gpt-5", "resp_x"))
