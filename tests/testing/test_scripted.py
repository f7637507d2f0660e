"""A scripted model stands in for a real one, without a server."""

from __future__ import annotations

import asyncio

import pytest

import llmstream as ls
from llmstream.errors import InvalidRequest
from llmstream.events import StreamStart, TextDelta
from llmstream.testing import (
    Break,
    Call,
    Cut,
    Refuse,
    Script,
    ScriptedModel,
    Stall,
    Turn,
    UnscriptedRequest,
    check_stream,
)


def weather(city: str) -> str:
    """Weather of a city."""
    return f"7 degrees in {city}"


async def read_into(events: list, model: ls.Model) -> None:
    async for event in model.events("x"):
        events.append(event)


async def test_turns_come_in_order_last_repeats() -> None:
    model = ScriptedModel("One.", Turn(reasoning="Hm.", text="Two."), repeat_last=True)
    texts = []
    for _ in range(3):
        events = [event async for event in model.events("Go on")]
        check_stream(events)
        texts.append("".join(e.delta for e in events if isinstance(e, TextDelta)))
    assert texts == ["One.", "Two.", "Two."]


async def test_it_notes_what_it_was_asked() -> None:
    model = ScriptedModel("Hi.", model="tiny")
    await model.stream("Hello", instructions="Be brief.", temperature=0.5).collect()
    (request,) = model.requests
    assert request.model == "tiny"
    assert [message.text for message in request.messages] == ["Be brief.", "Hello"]
    assert request.settings.temperature == 0.5


async def test_tools_are_called_and_results_sent() -> None:
    model = ScriptedModel(Turn(calls=(Call("weather", {"city": "Oslo"}),)), "It is 7 degrees.")
    agent = ls.Agent(model, tools=[weather])
    message = await agent.run("How warm is it in Oslo?")
    assert message.text == "It is 7 degrees."
    sent = model.requests[1].messages[-1].tool_results[0]
    assert sent.content == "7 degrees in Oslo"


async def test_a_script_may_decide_by_the_request() -> None:
    class Echo:
        def turn(self, request, number):
            return Turn(text=f"{number}: {request.messages[-1].text}")

    model = ScriptedModel(Echo())
    await model.stream("a").collect()
    assert (await model.stream("b").collect()).text == "1: b"
    assert (await ScriptedModel(Script((Turn(text="x"),))).stream("c").collect()).text == "x"


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        (Refuse(status=429, message="slow down", retry_after_s=3), ls.RateLimited, ""),
        (Break(after_events=4, status=529, message="busy"), ls.Overloaded, "a b "),
        (Cut(after_events=4), ls.ConnectionLost, "a b "),
        (Cut(after_events=4, clean=True), ls.IncompleteStream, "a b "),
    ],
)
async def test_faults_equal_those_of_real_streams(fault, error, text) -> None:
    model = ScriptedModel(Turn(text="a b c d", fault=fault), repeat_last=True)
    events = []
    with pytest.raises(error) as caught:
        await read_into(events, model)
    check_stream(events)
    assert text.startswith("".join(e.delta for e in events if isinstance(e, TextDelta)))
    assert events[-1].finish_reason == "error"
    assert caught.value.provider
    stream = model.stream("x", errors="events")
    await stream.collect()
    assert isinstance(stream.error, error)


async def test_a_refusal_says_how_long_to_wait() -> None:
    model = ScriptedModel(Turn(fault=Refuse(status=429, retry_after_s=3)))
    with pytest.raises(ls.RateLimited) as caught:
        await model.stream("x").collect()
    assert caught.value.retry_after_s == 3


async def test_custom_events_are_made_grammatical() -> None:
    model = ScriptedModel(Turn(events=(TextDelta("Hi", "7"),)))
    events = [event async for event in model.events("x", errors="events")]
    check_stream(events)
    assert [type(event).__name__ for event in events] == [
        "StreamStart",
        "TextStart",
        "TextDelta",
        "TextEnd",
        "ErrorEvent",
        "Finish",
    ]


async def test_it_can_be_left_in_the_middle() -> None:
    async with ScriptedModel("a b c d e f").stream("x") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert stream.text == "a"
    assert stream.messages()[-1].text == "a"


async def test_others_run_while_it_speaks() -> None:
    seen = []

    async def read(name: str) -> None:
        async for event in ScriptedModel("a b").events("x"):
            if not isinstance(event, StreamStart):
                seen.append(name)

    await asyncio.gather(read("one"), read("two"))
    assert seen[:4] == ["one", "two", "one", "two"]


def test_turns_required_stall_is_refused() -> None:
    for turns in ((), ("a", Script((Turn(text="b"),)))):
        with pytest.raises(InvalidRequest, match="takes at least one text or Turn"):
            ScriptedModel(*turns)
    model = ScriptedModel(Turn(text="a", fault=Stall()))
    with pytest.raises(InvalidRequest, match="does not support Stall"):
        model.call(model.request("x"))


async def test_an_observer_is_told_as_by_any_model() -> None:
    told: list[ls.Observation] = []
    model = ScriptedModel("a b", Turn(fault=Refuse(status=429)), "c d e", observe=told.append)
    await model.stream("Hi").collect()
    with pytest.raises(ls.RateLimited):
        await model.stream("Hi").collect()
    async with model.stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    calls: dict[str, list[ls.Observation]] = {}
    for observation in told:
        calls.setdefault(observation.call_id, []).append(observation)
    assert [[type(o) for o in seen] for seen in calls.values()] == [
        [ls.AttemptStarted, ls.FirstContent, ls.CallFinished],
        [ls.AttemptStarted, ls.AttemptFailed, ls.CallFinished],
        [ls.AttemptStarted, ls.FirstContent, ls.CallFinished],
    ]
    ends = [seen[-1] for seen in calls.values()]
    assert [(end.finish_reason, end.error_code, end.left) for end in ends] == [
        ("stop", None, False),
        ("error", "rate-limited", False),
        (None, None, True),
    ]
    assert (ends[0].usage.output_tokens, ends[0].attempts, ends[0].retries) == (1, 1, 0)


async def test_calls_stand_in_line_for_a_limiter(llm_virtual_clock) -> None:
    limiter = ls.RateLimiter(requests_per_minute=2, max_concurrent=1)
    model = ScriptedModel("a", Turn(fault=Refuse(status=503)), "b", limiter=limiter, repeat_last=True)
    await asyncio.gather(*[model.stream("Hi").collect() for _ in range(4)], return_exceptions=True)
    assert llm_virtual_clock.elapsed_s == pytest.approx(60, abs=1)
    assert (limiter.under_way, limiter.waiting) == (0, 0)


async def test_left_call_frees_its_slot() -> None:
    limiter = ls.RateLimiter(max_concurrent=1)
    model = ScriptedModel("a b c", limiter=limiter, repeat_last=True)
    for _ in range(3):
        async with model.stream("Hi") as stream:
            await anext(aiter(stream))
            assert limiter.under_way == 1
    assert limiter.under_way == 0
    waiting = asyncio.create_task(model.stream("Hi").collect())
    permit = await limiter.acquire()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    permit.release()
    assert (limiter.under_way, limiter.waiting) == (0, 0)


async def test_unscripted_request_fails() -> None:
    model = ScriptedModel("a")
    await model.stream("Hi").collect()
    model.assert_exhausted()
    with pytest.raises(UnscriptedRequest, match=r"request 2 to a ScriptedModel with 1 turn\. Add"):
        await model.stream("Who?").collect()
    with pytest.raises(AssertionError):
        model.assert_exhausted()


async def test_unrequested_turns_are_found() -> None:
    model = ScriptedModel("a", "b")
    await model.stream("Hi").collect()
    with pytest.raises(AssertionError, match="1 request for 2 turns of the script"):
        model.assert_exhausted()
    for endless in (ScriptedModel("a", repeat_last=True), ScriptedModel(lambda request: "a")):
        with pytest.raises(InvalidRequest, match="no end"):
            endless.assert_exhausted()


async def test_a_function_is_a_script() -> None:
    model = ScriptedModel(lambda request: request.messages[-1].text.upper())
    assert (await model.stream("hi").collect()).text == "HI"
    model = ScriptedModel(lambda request, number: Turn(text=str(number)))
    await model.stream("hi").collect()
    assert (await model.stream("hi").collect()).text == "1"
    with pytest.raises(InvalidRequest, match="Turn or a str"):
        await ScriptedModel(lambda request: 3).stream("hi").collect()
    with pytest.raises(InvalidRequest, match="is a function"):
        ScriptedModel(3)


@pytest.mark.parametrize(("arguments", "invalid"), [("{broken", True), ("[]", False), ({"a": 1}, False)])
async def test_broken_input_is_marked_as_by_a_wire(arguments, invalid) -> None:
    stream = ScriptedModel(Turn(calls=(Call("f", arguments),))).stream("x")
    (call,) = [event async for event in stream if isinstance(event, ls.ToolCall)]
    assert call.invalid is invalid


async def test_call_and_run_observers_are_notified() -> None:
    told: list[object] = []
    await ScriptedModel("a").stream("x", observe=told.append).collect()
    assert isinstance(told[-1], ls.CallFinished)
    told.clear()
    await ls.Agent(ScriptedModel("a"), observe=told.append).run("x")
    assert [type(o).__name__ for o in told if not isinstance(o, ls.agent.CallObserved)] == [
        "RunStarted",
        "RunFinished",
    ]
    assert len([o for o in told if isinstance(o, ls.agent.CallObserved)]) == 3


async def test_requests_equal_those_to_a_vendor() -> None:
    call = ls.chats.ToolCall("c1", "f", "{}")
    orphan = ls.chats.ToolResult("c9", "nobody asked")
    prompt = [
        ls.Message.user("Hi"),
        ls.Message("", "assistant", (call,)),
        ls.Message.tool([orphan]),
        ls.Message.user("Well?"),
    ]
    model = ScriptedModel("a")
    stream = model.stream(prompt)
    await stream.collect()
    (results,) = [m.tool_results for m in model.requests[0].messages if m.tool_results]
    assert [(r.tool_call_id, r.is_error) for r in results] == [("c1", True)]
