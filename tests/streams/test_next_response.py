"""Long answers that a vendor cuts into several responses, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import (
    Event,
    Finish,
    Raw,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    Usage,
)
from llmstream.grammar import check
from llmstream.middleware import Ask, wrap
from llmstream.simulator import Call, Continue, Cut, Pace, Refuse, Script, Simulator, Stall, Turn
from llmstream.testing import no_leaks

QUICK = ls.Retry(max_retries=2, max_wait_s=0.0)
OFF = {"google": {"automatic_continuation": False}}
TEXT = "It rains in Oslo and it will not stop today."
PER_RESPONSE = Usage(10, 5, 15)
KINDS = ("google", "google-interactions", "vertex")


@asynccontextmanager
async def simulated(kind: str, *turns: Turn) -> AsyncIterator[tuple[Simulator, Callable[..., ls.Model]]]:
    dialect = {"google": "gemini", "google-interactions": "gemini-interactions", "vertex": "gemini"}[kind]
    async with Simulator(Script(turns)) as simulator:

        def model(**options: object) -> ls.Model:
            options = {"retry": QUICK, "api_key": "k", **options}
            return ls.Model(f"{kind}:sim", base_url=f"{simulator.url}/{dialect}/v1beta", **options)

        yield simulator, model


async def read(events: AsyncIterator[Event]) -> list[Event]:
    read = [event async for event in events]
    assert check(read) == []
    return read


async def failed(events: AsyncIterator[Event]) -> tuple[list[Event], ls.LLMStreamError]:
    """What came, and what was raised after it."""
    came: list[Event] = []
    with pytest.raises(ls.LLMStreamError) as caught:
        async for event in events:
            came.append(event)
    assert check(came) == []
    return came, caught.value


def text_of(events: list[Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


def cut(*places: int, faults: tuple = (), **more: object) -> Turn:
    """The text in as many responses; `faults` meet the first requests for the last of them."""
    *earlier, last = places
    continues = (*(Continue(after_events=n) for n in earlier), Continue(after_events=last, faults=faults))
    return Turn(**{"text": TEXT, "usage": PER_RESPONSE, "continues": continues, **more})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_reader_sees_one_answer(kind) -> None:
    async with simulated(kind, cut(4, 6, 9)) as (simulator, model), no_leaks():
        events = await read(model().events("Hi"))
    start, named, opened, *deltas, ended, finish = events
    assert [type(event) for event in (start, named, opened, ended)] == [
        StreamStart,
        ResponseMetadata,
        TextStart,
        TextEnd,
    ]
    assert {type(event) for event in deltas} == {TextDelta}
    assert text_of(events) == TEXT
    assert isinstance(named, ResponseMetadata)
    assert named.id == "sim-0"
    assert isinstance(finish, Finish)
    assert (finish.finish_reason, finish.provider_metadata["google"]["continuations"]) == ("stop", 3)
    assert (finish.usage.input_tokens, finish.usage.output_tokens, finish.usage.total_tokens) == (40, 20, 60)
    assert len(finish.usage.raw) == 4
    assert len(simulator.requests) == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_and_an_object_are_one_too(kind) -> None:
    turns = (cut(4), cut(4, text='{"city": "Oslo", "degrees": 7}'))
    async with simulated(kind, *turns) as (_, model):
        async with model().stream("Hi") as stream:
            message = await stream.collect()
        assert (message.text, stream.finish_reason, stream.usage.output_tokens) == (TEXT, "stop", 10)
        answer = await model().stream("Hi", output={"type": "object"}).collect()
        assert json.loads(answer.text) == {"city": "Oslo", "degrees": 7}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_calls_tools_after_a_cut(kind) -> None:
    asked = []

    def weather(city: str) -> str:
        """Weather of a city."""
        asked.append(city)
        return "7 degrees"

    first = Turn(
        text="Let me see.", calls=(Call("weather", {"city": "Oslo"}),), continues=(Continue(after_events=3),)
    )
    inside = Turn(
        calls=(Call("weather", {"city": "Bergen, where it rains"}),), continues=(Continue(after_events=3),)
    )
    async with simulated(kind, first, inside, cut(4)) as (simulator, model):
        agent = ls.Agent(model(), tools=[weather])
        answer = await agent.run("Weather?")
        assert answer.text == TEXT
        assert asked == ["Oslo", "Bergen, where it rains"]
        assert len(simulator.requests) == 6


@pytest.mark.parametrize("kind", KINDS)
async def test_continuation_off_and_done_by_hand(kind) -> None:
    async with simulated(kind, cut(5)) as (simulator, model):
        (*_, finish) = first = await read(model().events("Hi", provider_options=OFF))
        assert finish.finish_reason == "length"
        assert finish.raw_finish_reason in ("CONTINUATION", "requires_continuation")
        told = finish.provider_metadata["google"]
        assert "continuations" not in told
        options = (
            {
                "continuation_token": told["continuation_token"],
                "previous_interaction_id": told["interaction_id"],
            }
            if kind == "google-interactions"
            else {"continuationToken": told["continuation_token"]}
        )
        rest = await read(model().events("Hi", provider_options={"google": {**OFF["google"], **options}}))
        assert text_of(first) + text_of(rest) == TEXT
        assert [b"automatic" in received.http.body for received in simulator.requests] == [False, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", [Refuse(status=503), Cut(after_events=0), Cut(after_events=0, clean=True)])
async def test_response_that_never_starts_retries(kind, fault) -> None:
    told: list[ls.Observation] = []
    async with simulated(kind, cut(3, 6, faults=(fault, fault))) as (simulator, model), no_leaks():
        events = await read(model(observe=told.append).events("Hi"))
    assert text_of(events) == TEXT
    assert len(simulator.requests) == 5
    bodies = [received.http.json() for received in simulator.requests]
    assert bodies[2] == bodies[3] == bodies[4] != bodies[1]
    assert [o.attempt for o in told if isinstance(o, ls.AttemptStarted)] == [1, 2, 3, 4, 5]
    assert len([o for o in told if isinstance(o, ls.AttemptFailed)]) == 2
    (finished,) = (o for o in told if isinstance(o, ls.CallFinished))
    assert (finished.attempts, finished.continuations, finished.retries) == (5, 2, 2)
    assert finished.usage.input_tokens == 30


@pytest.mark.parametrize("kind", KINDS)
async def test_refused_rest_leaves_the_partial(kind) -> None:
    async with simulated(kind, cut(5, faults=(Refuse(status=503),) * 3)) as (simulator, model), no_leaks():
        stream = model().stream("Hi")
        events, error = await failed(stream)
    assert isinstance(error, ls.IncompleteStream)
    assert (error.status, error.reason, error.attempts) == (503, "overloaded", 4)
    assert error.partial.text == text_of(events) == "It rains in"
    assert error.usage.input_tokens == 10
    assert events[-1].provider_metadata["google"]["continuation_token"]
    assert len(simulator.requests) == 4


async def test_permanent_refusal_is_not_retried() -> None:
    async with simulated("google", cut(5, faults=(Refuse(status=400),))) as (simulator, model):
        _, error = await failed(model().stream("Hi"))
    assert (type(error), error.reason, error.retryable) == (ls.IncompleteStream, "bad-request", False)
    assert len(simulator.requests) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clean", [True, False])
async def test_response_broken_inside_is_the_end(kind, clean) -> None:
    turn = cut(5, faults=(Cut(after_events=4, clean=clean),))
    async with simulated(kind, turn) as (simulator, model), no_leaks():
        events, error = await failed(model().stream("Hi"))
    assert isinstance(error, ls.IncompleteStream if clean else ls.ConnectionLost)
    assert error.partial.text == text_of(events) == "It rains in Oslo and"
    told = events[-1].provider_metadata["google"]
    assert told["continuation_token"]
    assert told["continuations"] == 1
    assert len(simulator.requests) == 2


async def test_cut_before_content_does_not_restart() -> None:
    """What was paid for is not asked for a second time from its beginning."""
    async with simulated("google", cut(1, faults=(Refuse(status=503),) * 3)) as (simulator, model):
        _, error = await failed(model().stream("Hi"))
        assert isinstance(error, ls.IncompleteStream)
        assert len(simulator.requests) == 4
    async with simulated("google", cut(1, faults=(Refuse(status=503),) * 2)) as (_, model):
        assert text_of(await read(model().events("Hi"))) == TEXT


async def test_raw_events_of_all_responses_show() -> None:
    async with simulated("google", cut(4)) as (_, model):
        events = await read(model().events("Hi", include_raw=True))
    reasons = [
        candidate["finishReason"]
        for event in events
        if isinstance(event, Raw)
        for candidate in event.raw_value["candidates"]
        if "finishReason" in candidate
    ]
    assert reasons == ["CONTINUATION", "STOP"]
    assert text_of(events) == TEXT


async def test_a_middleware_sees_one_call() -> None:
    asked = []

    async def noted(request: ls.Request, ask: Ask) -> AsyncGenerator[Event]:
        asked.append(request)
        async for event in ask(request):
            yield event

    async with simulated("google", cut(4, 6)) as (simulator, model):
        events = await read(wrap(model(), noted).events("Hi"))
    assert text_of(events) == TEXT
    assert (len(asked), len(simulator.requests)) == (1, 3)


async def test_each_response_is_paced_and_priced() -> None:
    """Each waits for the limiter and uses its own requests and tokens."""
    limiter = ls.RateLimiter(
        max_concurrent=1, requests_per_minute=5, tokens_per_minute=1000, clock=lambda: 0.0
    )
    async with simulated("google", cut(4, 6)) as (_, model):
        events = await read(model(limiter=limiter).events("Hi"))
    assert text_of(events) == TEXT
    assert (limiter.under_way, limiter.waiting) == (0, 0)
    assert limiter._pacer.levels[0] == 5 - 3
    assert limiter._pacer.levels[1] == 1000 - 3 * 15


# deadlines, and leaving


async def test_first_event_deadline_per_response(llm_virtual_clock) -> None:
    stalls = (Stall(after_events=0),) * 2
    async with simulated("google", cut(4, faults=stalls)) as (simulator, model), no_leaks():
        deadlines = ls.Deadlines(first_event_s=50, idle_s=900)
        events = await read(model(deadlines=deadlines).events("Hi"))
    assert text_of(events) == TEXT
    assert len(simulator.requests) == 4
    assert llm_virtual_clock.elapsed_s == pytest.approx(100, abs=1)


async def test_idle_deadline_after_first_content(llm_virtual_clock) -> None:
    async with simulated("google", cut(4, faults=(Stall(after_events=3),))) as (_, model), no_leaks():
        deadlines = ls.Deadlines(first_event_s=900, idle_s=50)
        events, error = await failed(model(deadlines=deadlines).events("Hi"))
    assert isinstance(error, ls.DeadlineExceeded)
    assert error.reason == "idle"
    assert events[-1].provider_metadata["google"]["continuation_token"]
    assert llm_virtual_clock.elapsed_s == pytest.approx(50, abs=1)


async def test_the_total_deadline_counts_over_all(llm_virtual_clock) -> None:
    stalls = (Stall(after_events=0),) * 9
    async with simulated("google", cut(4, faults=stalls)) as (_, model), no_leaks():
        deadlines = ls.Deadlines(first_event_s=50, total_s=120)
        retry = ls.Retry(max_retries=99, max_wait_s=0.0)
        _, error = await failed(model(deadlines=deadlines, retry=retry).events("Hi"))
    assert isinstance(error, ls.DeadlineExceeded)
    assert error.reason == "total"
    assert llm_virtual_clock.elapsed_s == pytest.approx(120, abs=1)


@pytest.mark.parametrize("how", ["leave", "cancel"])
async def test_leaving_between_closes_the_socket(how) -> None:
    """The stream is left between two responses."""
    async with simulated("google", cut(4, faults=(Stall(after_events=0),))) as (simulator, model), no_leaks():

        async def reader() -> None:
            async with model().stream("Hi") as stream:
                streams.append(stream)
                async for _ in stream:
                    pass

        streams: list[ls.EventStream] = []
        task = asyncio.create_task(reader())
        while len(simulator.requests) < 2:
            await asyncio.sleep(0.001)
        if how == "cancel":
            task.cancel()
        else:
            await streams[0].aclose()
        await asyncio.wait([task])
        await asyncio.wait_for(simulator.requests[1].done.wait(), 5)
        assert simulator.requests[1].disconnected
        assert task.cancelled() == (how == "cancel")


async def test_leaving_while_waiting_sends_nothing() -> None:
    """The stream is left while a retry is due."""
    faults = (Refuse(status=503, retry_after_s=30),)
    async with simulated("google", cut(4, faults=faults)) as (simulator, model), no_leaks():
        async with model(retry=ls.Retry()).stream("Hi") as stream:
            task = asyncio.create_task(stream.collect())
            while len(simulator.requests) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asyncio.wait([task]), 5)
        assert len(simulator.requests) == 2
        task.exception()


# servers that do not get on


def chunk(text: str | None, **candidate: object) -> bytes:
    parts = [] if text is None else [{"text": text}]
    body = {"candidates": [{"content": {"parts": parts}, **candidate}], "responseId": "r1"}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def gemini(url: str) -> ls.Model:
    return ls.Model("google:m", base_url=url, api_key="k", retry=QUICK)


@pytest.mark.parametrize("text", [None, "again "])
async def test_the_same_token_again_is_an_error(serve, text) -> None:
    asked = []

    async def stuck(request: web.Request) -> web.Response:
        asked.append(await request.json())
        body = chunk("a " if len(asked) == 1 else text, finishReason="CONTINUATION", continuationToken="t")
        return web.Response(body=body, content_type="text/event-stream")

    events, error = await failed(gemini(await serve(stuck)).events("Hi"))
    assert isinstance(error, ls.ProtocolError)
    assert "makes no progress" in error.message
    assert len(asked) == 2
    assert events[-1].provider_metadata["google"]["continuation_token"] == "t"


@pytest.mark.parametrize("text", [None, "a "])
async def test_an_answer_without_end_is_an_error(serve, text) -> None:
    asked = 0

    async def endless(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        body = chunk(text, finishReason="CONTINUATION", continuationToken=f"t{asked}")
        return web.Response(body=body, content_type="text/event-stream")

    _, error = await failed(gemini(await serve(endless)).events("Hi"))
    assert isinstance(error, ls.LimitExceeded)
    assert asked == 101


async def test_break_after_a_token_is_continued(serve) -> None:
    asked = []

    async def breaking(request: web.Request) -> web.StreamResponse:
        asked.append((await request.json()).get("continuationToken"))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if len(asked) == 1:
            await response.write(chunk("It ra") + chunk("ins ", continuationToken="t1"))
            await asyncio.sleep(0.01)
            request.transport.abort()
            return response
        await response.write(chunk("here.", finishReason="STOP"))
        await response.write_eof()
        return response

    events = await read(gemini(await serve(breaking)).events("Hi"))
    assert text_of(events) == "It rains here."
    assert asked == [None, "t1"]


async def test_in_stream_error_retries_pre_content(serve) -> None:
    """After the first content it is not retried."""
    asked = 0

    async def busy(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        body = [
            chunk("a", finishReason="CONTINUATION", continuationToken="t"),
            b'data: {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}\n\n',
            chunk("b", finishReason="STOP"),
        ][asked - 1]
        return web.Response(body=body, content_type="text/event-stream")

    assert text_of(await read(gemini(await serve(busy)).events("Hi"))) == "ab"


async def test_each_request_asks_for_its_key(serve) -> None:
    """An answer may take longer than a token is good for."""
    keys = []

    async def counting(request: web.Request) -> web.Response:
        keys.append(request.headers["x-goog-api-key"])
        cut = {"finishReason": "CONTINUATION", "continuationToken": f"t{len(keys)}"}
        body = chunk("a", **(cut if len(keys) < 3 else {"finishReason": "STOP"}))
        return web.Response(body=body, content_type="text/event-stream")

    fresh = iter(["key-one", "key-two", "key-three"])
    model = ls.Model("google:m", base_url=await serve(counting), api_key=lambda: next(fresh))
    await model.stream("Hi").collect()
    assert keys == ["key-one", "key-two", "key-three"]


@pytest.mark.parametrize("kind", KINDS)
async def test_response_cut_in_a_call_continues(kind) -> None:
    given = Turn(calls=(Call("reply", {"city": "Bergen, Norway"}),), continues=(Continue(after_events=3),))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    wanted = ls.Output(schema, name="reply", mode="tool")
    async with simulated(kind, given) as (simulator, model):
        events = await read(model().events("Hi", output=wanted))
    assert json.loads(text_of(events)) == {"city": "Bergen, Norway"}
    assert len([e for e in events if isinstance(e, TextStart)]) == 1
    assert len(simulator.requests) == 2
    assert isinstance(events[-1], Finish)
    assert events[-1].finish_reason == "stop"
    assert events[-1].provider_metadata["google"]["continuations"] == 1


async def test_step_deadline_counts_per_response(llm_virtual_clock) -> None:
    async with simulated("google", cut(6, pace=Pace(delta_s=10))) as (_, model):
        events = await read(model(deadlines=ls.Deadlines(step_s=60)).events("Hi"))
    assert text_of(events) == TEXT
    assert llm_virtual_clock.elapsed_s > 60
