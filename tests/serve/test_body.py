"""A body is a response without a server: status, headers, bytes, heartbeats, and what leaving it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

import llmstream as ls
from llmstream import grammar, serve
from llmstream.errors import RateLimited
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    ReasoningStart,
    RetryNotice,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    decode,
)
from llmstream.exchange import HttpResponse
from llmstream.serve.aiohttp import respond as aiohttp_respond
from llmstream.serve.body import _AHEAD_BYTES
from llmstream.simulator import Cut, Pace, Refuse, Simulator, Turn

TEXT = (StreamStart(), TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"))
AGAIN = RetryNotice("busy", 0, 1, 0.0)
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


@pytest.mark.parametrize("start", [TextStart("0"), ReasoningStart("0")], ids=["text", "reasoning"])
async def test_block_without_a_delta_is_no_content(start: Event) -> None:
    """A failure after its start is a status, as before any content."""
    body = serve.Body(played(StreamStart(), start, RateLimited("busy")))
    await body.open()
    assert body.status == 429
    assert b"rate-limited" in await sent(body)


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


async def test_foreign_error_reaches_server() -> None:
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


async def test_events_of_one_read_are_a_chunk() -> None:
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


async def test_stream_has_what_was_sent() -> None:
    """For an application that stores it, also after a client that has left."""
    turn = Turn(text="word " * 500, pace=Pace(first_s=0, tokens_per_s=5))
    async with Simulator(lambda request, number: turn) as simulator:
        stream = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k").stream("Hello")
        body = serve.Body(stream)
        async for chunk in body:
            if b"text-delta" in chunk:
                break
        await body.aclose()
        assert stream.message.text.startswith("word")
        assert stream.finish_reason is None
    stream = ls.stream("sim:demo", "Hello")
    await sent(serve.Body(stream))
    assert stream.message.text.startswith("You said: Hello")


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


async def test_early_defect_is_raised_by_open() -> None:
    """So that the framework responds with its own status: nothing has been sent yet."""
    body = serve.Body(played(StreamStart(), ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError):
        await body.open()
    await body.aclose()


async def test_failed_source_closes_blocks() -> None:
    """The frames obey the grammar, whatever the generator of the application leaves open."""
    body = serve.Body(played(*TEXT[:3], RateLimited("busy")))
    events = frames_of(await sent(body))
    assert events[-3:-2] == [TextEnd("0", incomplete=True)]
    assert grammar.check(events) == []


async def test_source_without_start_gets_one() -> None:
    async def source() -> AsyncIterator[Event]:
        await asyncio.sleep(0.05)
        raise RateLimited("busy")
        yield

    body = serve.Body(source(), head_wait_s=0.01)
    assert grammar.check(frames_of(await sent(body))) == []


async def test_unfinished_source_is_cut_off() -> None:
    """A generator of the application that returns early is no complete response."""
    events = frames_of(await sent(serve.Body(played(*TEXT))))
    assert [type(event) for event in events[-2:]] == [ErrorEvent, Finish]


async def test_error_before_retry_is_void() -> None:
    """The status is that of the last attempt."""
    failed = RateLimited("busy").info
    body = serve.Body(played(StreamStart(), ErrorEvent(failed), AGAIN, Finish("stop")))
    await body.open()
    assert (body.status, body.error) == (200, None)
    await body.aclose()


async def test_text_outlives_void_errors() -> None:
    events = (StreamStart(), ErrorEvent(RateLimited("busy").info), AGAIN, *TEXT[1:], Finish("stop"))
    assert await sent(serve.Body(played(*events), serve.TextWriter())) == b"Hi"


async def test_text_is_not_sent_twice() -> None:
    """Plain text cannot take back the step that is asked again."""
    with pytest.raises(ls.IncompleteStream, match="cannot be withdrawn"):
        await sent(serve.Body(played(*TEXT, AGAIN, *TEXT[1:], Finish("stop")), serve.TextWriter()))


async def test_left_body_has_no_clean_end() -> None:
    """Half a response that another task stops must not pass for a complete one."""
    body = serve.Body(played(*TEXT[:3], 60.0))
    received = []
    with pytest.raises(ls.IncompleteStream, match="closed before its end"):
        async for chunk in body:
            received.append(chunk)
            asyncio.get_running_loop().call_soon(lambda: stopping.append(asyncio.create_task(body.aclose())))
            stopping: list[asyncio.Task[None]] = []
    assert b"text-delta" in received[0]
    await asyncio.gather(*stopping)


async def test_body_left_as_it_opens() -> None:
    """The reader is cancelled before its first step, and nobody waits for it."""
    body = serve.Body(played(*TEXT, Finish("stop")))
    opening = asyncio.create_task(body.open())
    await asyncio.sleep(0)
    await body.aclose()
    with pytest.raises(ls.IncompleteStream):
        await opening
    with pytest.raises(ls.IncompleteStream):
        await body.open()


async def test_cleanup_of_source_is_not_cut() -> None:
    """Leaving a second time does not cancel the cleanup that the first began."""
    cleaned = False

    async def source() -> AsyncIterator[Event]:
        nonlocal cleaned
        try:
            yield StreamStart()
            yield TextStart("0")
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            cleaned = True

    body = serve.Body(source())
    await body.open()
    await asyncio.gather(body.aclose(), body.aclose())
    assert cleaned


async def test_body_nobody_takes_is_left() -> None:
    """A response that was made and dropped, as by a middleware, does not hold its stream for ever."""
    left = asyncio.Event()

    async def source() -> AsyncIterator[Event]:
        try:
            for event in TEXT[:3]:
                yield event
            await asyncio.sleep(60)
        finally:
            left.set()

    body = serve.Body(source(), send_timeout_s=0.01)
    await body.open()
    await asyncio.wait_for(left.wait(), 30)
    with pytest.raises(TimeoutError, match=r"taken nothing for 0\.01 s"):
        await sent(body)


async def test_slow_source_is_no_lost_client() -> None:
    """Only the client's silence counts for send_timeout_s."""
    body = serve.Body(played(*TEXT[:3], 0.2, TEXT[3], Finish("stop")), send_timeout_s=0.02, heartbeat_s=60)
    assert grammar.check(frames_of(await sent(body))) == []


class Broken(serve.SSEWriter):
    """A writer with a defect."""

    def feed(self, event: Event) -> bytes:
        if isinstance(event, TextDelta):
            raise ZeroDivisionError("of the writer")
        return super().feed(event)


async def test_defect_of_writer_leaves_source() -> None:
    left = False

    async def source() -> AsyncIterator[Event]:
        nonlocal left
        try:
            for event in TEXT:
                yield event
        finally:
            left = True

    with pytest.raises(ZeroDivisionError):
        await sent(serve.Body(source(), Broken()))
    assert left


class Strict(serve.SSEWriter):
    """A writer that does not accept a failure."""

    def feed(self, event: Event) -> bytes:
        if isinstance(event, Finish) and event.finish_reason == "error":
            raise RateLimited("no form for it")
        return super().feed(event)


async def test_refusal_by_writer_is_raised() -> None:
    """Though a stream's own exception after its finish is not."""
    with pytest.raises(RateLimited, match="no form"):
        await sent(serve.Body(played(*TEXT, ErrorEvent(RateLimited("busy").info), Finish("error")), Strict()))


async def test_cancelled_open_leaves_source() -> None:
    entered, left = asyncio.Event(), False

    async def source() -> AsyncIterator[Event]:
        nonlocal left
        try:
            yield StreamStart()
            entered.set()
            await asyncio.sleep(60)
        finally:
            left = True

    opening = asyncio.create_task(serve.Body(source()).open())
    await entered.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert left


async def test_plain_body_is_status_and_text() -> None:
    body = serve.Body.plain(409, "Reload the page.")
    async with body:
        assert (body.status, body.headers["content-type"]) == (409, "text/plain; charset=utf-8")
        assert await sent(body) == b"Reload the page."


async def test_plain_204_has_no_content() -> None:
    """Without content, content type or a chunked end, which clients would take for the next response."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await aiohttp_respond(request, serve.Body.plain(204))

    application = web.Application()
    application.router.add_get("/", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    finally:
        await runner.cleanup()
    assert head.startswith(b"HTTP/1.1 204")
    assert b"content-type" not in head.lower()
    assert rest == b""


async def test_bytes_are_sent_as_they_are() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.sleep(0.05)
        yield b"two"

    body = serve.Body.of_bytes(pieces(), {"content-type": "text/x"}, heartbeat=b"...", heartbeat_s=0.01)
    data = await sent(body)
    assert (body.status, body.headers) == (200, {"content-type": "text/x"})
    assert data.count(b"...") > 0
    assert data.replace(b"...", b"") == b"onetwo"


async def test_bytes_that_break_off_raise() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError):
        await sent(serve.Body.of_bytes(pieces(), {}))


async def test_later_body_has_what_it_awaited() -> None:
    """Status and headers are final once it is open."""
    known = asyncio.Event()

    async def answer() -> HttpResponse:
        await known.wait()
        return HttpResponse(409, b"Reload", {"x-a": "1"})

    body = serve.Body.later(answer)
    opening = asyncio.create_task(body.open())
    await asyncio.sleep(0.01)
    assert not opening.done()
    known.set()
    await opening
    assert (body.status, body.headers) == (409, {"x-a": "1"})
    assert await sent(body) == b"Reload"


async def test_leaving_a_later_body_cancels_it() -> None:
    ended = []

    async def answer() -> HttpResponse:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return HttpResponse(204)

    body = serve.Body.later(answer)
    opening = asyncio.create_task(body.open())
    await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert ended == ["cancelled"]


async def test_later_body_raises_what_failed() -> None:
    async def answer() -> HttpResponse:
        raise ZeroDivisionError("ours")

    body = serve.Body.later(answer)
    with pytest.raises(ZeroDivisionError):
        await body.open()


async def test_unsent_later_body_awaits_nothing() -> None:
    """As for a HEAD request."""

    async def answer() -> HttpResponse:
        raise AssertionError("it was asked")

    body = serve.Body.later(answer)
    await body.aclose()
    assert body.status == 200


class Pouring:
    """Events that are read, and after them a batch that comes past the reader."""

    def __init__(self, *batch: Event) -> None:
        self._batch = list(batch)
        self._take: Callable[[list[Event]], bool] | None = None

    def pour(self, take: Callable[[list[Event]], bool]) -> None:
        self._take = take

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in TEXT[:3]:
            yield event
        assert self._take is not None
        # As HTTPCall: what is refused is read.
        if not self._take(self._batch):
            for event in self._batch:
                yield event
        yield TextEnd("0")
        yield Finish("stop")


async def test_poured_events_are_written() -> None:
    body = serve.Body(Pouring(TextDelta(" you", "0"), TextDelta(" there", "0")))
    assert frames_of(await sent(body))[2:5] == [
        TextDelta("Hi", "0"),
        TextDelta(" you", "0"),
        TextDelta(" there", "0"),
    ]


async def test_encoders_that_fail_end_the_body() -> None:
    """Also where they fail outside of the task that reads; what was written before is sent."""

    class Failing(serve.TextWriter):
        def feed(self, event: Event) -> bytes:
            if event == TextDelta("bad", "0"):
                raise RuntimeError("a defect")
            return super().feed(event)

    body = serve.Body(Pouring(TextDelta(" you", "0"), TextDelta("bad", "0")), Failing())
    got = b""
    with pytest.raises(RuntimeError, match="a defect"):
        async for chunk in body:
            got += chunk
    assert got == b"Hi you"
