"""A body is a response without a server: status, headers, bytes, heartbeats, and what leaving it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import llmstream as ls
from llmstream import grammar, serve
from llmstream.errors import RateLimited
from llmstream.events import ErrorEvent, Event, Finish, StreamStart, TextDelta, TextEnd, TextStart, decode
from llmstream.serve.body import _AHEAD_BYTES
from llmstream.simulator import Cut, Pace, Refuse, Simulator, Turn

TEXT = (StreamStart(), TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"))
REFUSAL = Turn(fault=Refuse(status=429, retry_after_s=7, message="at 10.0.0.7"))


async def played(*events: Event | float | Exception) -> AsyncIterator[Event]:
    """Yields events; a number is a pause in seconds, an exception is raised."""
    for event in events:
        if isinstance(event, Exception):
            raise event
        if isinstance(event, float):
            await asyncio.sleep(event)
        else:
            yield event


async def sent(body: serve.Body) -> bytes:
    return b"".join([chunk async for chunk in body])


def frames_of(data: bytes) -> list[Event]:
    """The events of SSE frames, which have to end in the frame `end`."""
    *frames, end, rest = data.decode().split("\n\n")
    assert (end, rest) == ("event: end\ndata: {}", "")
    lines = [frame.splitlines() for frame in frames if not frame.startswith(":")]
    assert [line[0] for line in lines] == [f"id: {number}" for number in range(len(lines))]
    return [decode(line[1].removeprefix("data: ")) for line in lines]


async def test_frames_are_the_events() -> None:
    async with ls.Model("sim:demo").stream("Hello") as stream:
        expected = [event async for event in stream]
    body = serve.Body(ls.stream("sim:demo", "Hello"))
    events = frames_of(await sent(body))
    assert body.status == 200
    assert body.headers["content-type"] == "text/event-stream"
    assert [type(event) for event in events] == [type(event) for event in expected]
    assert grammar.check(events) == []


async def test_text_writer_sends_text_alone() -> None:
    body = serve.Body(played(*TEXT, Finish("stop")), serve.TextWriter())
    assert await sent(body) == b"Hi"
    assert body.headers["content-type"] == "text/plain; charset=utf-8"


async def test_refusal_becomes_a_status() -> None:
    async with Simulator(lambda request, number: REFUSAL) as simulator:
        model = ls.Model(
            "openai:m", base_url=f"{simulator.url}/v1", api_key="k", retry=ls.Retry(max_retries=0)
        )
        body = serve.Body(model.stream("Hello"))
        await body.open()
        assert body.status == 429
        assert body.headers["retry-after"] == "7"
        data = await sent(body)
    assert data == (
        b'{"error":{"code":"rate-limited","message":"The model is busy. Try again in 7 s.",'
        b'"retryable":true,"retryAfterS":7.0}}'
    )


async def test_later_failure_is_in_the_frames() -> None:
    turn = Turn(text="It was a dark and stormy night.", fault=Cut(after_events=4))
    async with Simulator(lambda request, number: turn) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k")
        body = serve.Body(model.stream("Hello"))
        events = frames_of(await sent(body))
    assert body.status == 200
    error = next(event.error for event in events if isinstance(event, ErrorEvent))
    assert error.code == "connection-lost"
    assert "127.0.0.1" not in error.message
    assert grammar.check(events) == []


async def test_text_that_breaks_off_raises() -> None:
    """Plain text has no form for an error, so the connection has to be cut."""
    body = serve.Body(played(*TEXT, RateLimited("busy")), serve.TextWriter())
    with pytest.raises(RateLimited):
        await sent(body)


async def test_source_without_finish_is_cut_off() -> None:
    """A generator of the application that returns early is no complete response."""
    events = frames_of(await sent(serve.Body(played(*TEXT))))
    assert [type(event) for event in events[-2:]] == [ErrorEvent, Finish]


async def test_foreign_exception_reaches_server() -> None:
    body = serve.Body(played(*TEXT, ZeroDivisionError("ours")))
    chunks = []
    with pytest.raises(ZeroDivisionError):
        async for chunk in body:
            chunks.append(chunk)
    assert b"event: end" not in b"".join(chunks)


async def test_silence_has_heartbeats() -> None:
    body = serve.Body(played(*TEXT[:3], 0.2, TEXT[3], Finish("stop")), heartbeat_s=0.01)
    data = await sent(body)
    assert data.count(b": ping\n\n") > 2
    assert grammar.check(frames_of(data)) == []


async def test_status_does_not_wait_for_ever() -> None:
    body = serve.Body(played(StreamStart(), 0.3, RateLimited("busy")), head_wait_s=0.01)
    await body.open()
    assert body.status == 200
    events = frames_of(await sent(body))
    assert [type(event) for event in events] == [StreamStart, ErrorEvent, Finish]


async def test_events_of_one_read_are_one_chunk() -> None:
    body = serve.Body(played(*TEXT, Finish("stop")))
    await body.open()
    assert len([chunk async for chunk in body]) == 1


async def test_slow_client_holds_source_back() -> None:
    """What is written ahead is bounded, whatever the source could give."""
    count = 0

    async def endless() -> AsyncIterator[Event]:
        nonlocal count
        for event in TEXT[:2]:
            yield event
        while True:
            count += 1
            yield TextDelta("x" * 1000, "0")

    body = serve.Body(endless())
    await body.open()
    for _ in range(100):
        await asyncio.sleep(0)
    assert count <= _AHEAD_BYTES // 1000 + 1
    await body.aclose()


async def test_leaving_closes_vendors_socket() -> None:
    turn = Turn(text="word " * 500, pace=Pace(first_s=0, tokens_per_s=5))
    async with Simulator(lambda request, number: turn) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k")
        body = serve.Body(model.stream("Hello"))
        async for _ in body:
            break
        await body.aclose()
        async with asyncio.timeout(5):
            await simulator.requests[0].done.wait()
        assert simulator.requests[0].disconnected


async def test_body_never_read_leaves_source() -> None:
    left = False

    async def source() -> AsyncIterator[Event]:
        nonlocal left
        try:
            for event in TEXT[:3]:
                yield event
            await asyncio.sleep(60)
        finally:
            left = True

    body = serve.Body(source())
    await body.open()
    await body.aclose()
    assert left


async def test_body_is_sent_once() -> None:
    body = serve.Body(played(*TEXT, Finish("stop")))
    await sent(body)
    with pytest.raises(ls.InvalidRequest, match="sent once"):
        await sent(body)


async def test_run_is_served_with_its_tools() -> None:
    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return "snow"

    run = ls.Agent("sim:demo", tools=[weather]).stream("How is the weather in Oslo?")
    events = frames_of(await sent(serve.Body(run)))
    assert any(isinstance(event, ls.ToolResult) for event in events)
    assert grammar.check(events) == []
