"""What observers and the log are told of a call, and what they are not."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import time
from pathlib import Path

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import Finish, ResponseMetadata, TextDelta
from llmstream.streams.observations import Watch

_spec = importlib.util.spec_from_file_location("sse_server", Path(__file__).parent / "sse_server.py")
assert _spec is not None
assert _spec.loader is not None
sse = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sse)

KEY = "sk-secret-canary-0123456789"
NO_RETRY = ls.Retry(max_retries=0)


def model(url: str, **options: object) -> ls.Model:
    return ls.Model("openai:m1", base_url=url, api_key=KEY, **options)  # type: ignore[arg-type]


async def hello(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-request-id": "req-1"})
    await response.prepare(request)
    for piece in sse.HELLO:
        await response.write(piece)
        await asyncio.sleep(0.005)
    return response


async def busy(request: web.Request) -> web.StreamResponse:
    headers = {"x-request-id": "req-0", "retry-after-ms": "1"}
    return web.json_response({"error": {"message": "busy"}}, status=503, headers=headers)


async def test_call_observed_from_start_to_end(serve) -> None:
    asked = 0

    async def second_time(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return await (busy if asked == 1 else hello)(request)

    told: list[ls.Observation] = []
    await model(await serve(second_time), observe=told.append).stream("Hi").collect()
    first, failed, second, content, finished = told
    assert isinstance(first, ls.AttemptStarted)
    assert isinstance(failed, ls.AttemptFailed)
    assert isinstance(second, ls.AttemptStarted)
    assert isinstance(content, ls.FirstContent)
    assert isinstance(finished, ls.CallFinished)
    assert len({observation.call_id for observation in told}) == 1
    assert {(observation.provider, observation.model) for observation in told} == {("openai", "m1")}
    assert (first.attempt, second.attempt, finished.attempts, finished.retries) == (1, 2, 2, 1)
    assert (failed.error_code, failed.status, failed.request_id) == ("overloaded", 503, "req-0")
    assert failed.wait_s == pytest.approx(0.001)
    assert content.request_id == finished.request_id == "req-1"
    assert (finished.response_id, finished.response_model) == ("r1", "m1")
    assert (finished.finish_reason, finished.error_code, finished.left) == ("stop", None, False)
    assert finished.usage.output_tokens == 2
    assert finished.time_to_first_s is not None
    assert 0 < finished.time_to_first_s < finished.duration_s
    assert finished.inter_p50_s is not None
    assert finished.tokens_per_s is not None


async def test_a_call_that_fails_says_why(serve) -> None:
    told: list[ls.Observation] = []
    with pytest.raises(ls.Overloaded):
        await model(await serve(busy), observe=told.append, retry=NO_RETRY).stream("Hi").collect()
    assert [type(observation).__name__ for observation in told] == [
        "AttemptStarted",
        "AttemptFailed",
        "CallFinished",
    ]
    finished = told[-1]
    assert isinstance(finished, ls.CallFinished)
    assert (finished.error_code, finished.finish_reason, finished.request_id) == (
        "overloaded",
        "error",
        "req-0",
    )
    assert finished.time_to_first_s is finished.inter_p50_s is finished.tokens_per_s is None


async def test_a_call_that_is_left_ends_once(serve) -> None:
    told: list[ls.Observation] = []
    async with model(await serve(hello), observe=told.append).stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    ends = [observation for observation in told if isinstance(observation, ls.CallFinished)]
    assert [(end.left, end.error_code) for end in ends] == [(True, None)]


async def test_a_cancelled_call_ends_too(serve) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    told: list[ls.Observation] = []
    task = asyncio.create_task(model(await serve(silent), observe=told.append).stream("Hi").collect())
    while not told:
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(told[-1], ls.CallFinished)
    assert told[-1].left


async def test_time_in_line_is_told(serve) -> None:
    limiter, told = ls.RateLimiter(max_concurrent=1), list[ls.Observation]()
    permit = await limiter.acquire()
    asking = model(await serve(hello), observe=told.append, limiter=limiter)
    reading = asyncio.create_task(asking.stream("Hi").collect())
    while not limiter.waiting:
        await asyncio.sleep(0.005)
    before = time.monotonic()
    await asyncio.sleep(0.05)
    waited_s = time.monotonic() - before
    permit.release()
    await reading
    assert isinstance(told[-1], ls.CallFinished)
    assert told[-1].paced_s >= waited_s - 0.001  # of the loop's clock


async def test_raising_observer_breaks_no_stream(serve, caplog) -> None:
    def wrong(observation: ls.Observation) -> None:
        raise RuntimeError("mine")

    message = await model(await serve(hello), observe=wrong).stream("Hi").collect()
    assert message.text == "Hello"
    assert "an observer failed at CallFinished" in caplog.text


async def test_log_has_ids_no_content_no_keys(serve, caplog) -> None:
    caplog.set_level(logging.DEBUG, logger="llmstream")
    await model(await serve(hello)).stream("A secret question").collect()
    with pytest.raises(ls.Overloaded):
        await model(await serve(busy), retry=NO_RETRY).stream("A secret question").collect()
    ours = [record for record in caplog.records if record.name.startswith("llmstream")]
    lines = [(record.levelname, record.getMessage()) for record in ours]
    assert lines == [
        ("DEBUG", "openai:m1: attempt 1"),
        ("INFO", "openai:m1: finished; 3 tokens in, 2 tokens out (request req-1)"),
        ("DEBUG", "openai:m1: attempt 1"),
        ("INFO", "openai:m1: attempt 1 failed: overloaded; no further attempt (request req-0)"),
        ("INFO", "openai:m1: overloaded (request req-0)"),
    ]
    text = " ".join(words for _, words in lines)
    assert all(word not in text for word in (KEY, "secret", "Hello"))


def test_fragments_of_a_chunk_share_the_gap() -> None:
    """The gap is the time since the last chunk."""
    now = 0.0
    told: list[ls.Observation] = []
    watch = Watch(told.append, call_id="c", provider="p", model="m", clock=lambda: now)
    watch.batch([ResponseMetadata("m-1", "r-1")])
    for moment, count in [(1.0, 1), (1.2, 2), *((1.2 + 0.1 * n, 1) for n in range(1, 99)), (20.0, 1)]:
        now = moment
        watch.batch([TextDelta("x", "t")] * count)
    watch.batch([Finish("stop")])
    watch.finished(1, ls.Usage(output_tokens=190), None, left=False)
    watch.finished(1, ls.Usage(), None, left=True)
    content, finished = told
    assert isinstance(content, ls.FirstContent)
    assert isinstance(finished, ls.CallFinished)
    assert content.after_s == finished.time_to_first_s == 1.0
    assert finished.inter_p50_s == pytest.approx(0.1, rel=0.05)
    assert finished.inter_p99_s == pytest.approx(0.1, rel=0.05)
    assert finished.tokens_per_s == pytest.approx(10.0)
    assert (finished.response_id, finished.response_model) == ("r-1", "m-1")


def test_one_long_gap_is_in_99th_percentile() -> None:
    """The stream has few fragments."""
    now = 0.0
    told: list[ls.Observation] = []
    watch = Watch(told.append, call_id="c", provider="p", model="m", clock=lambda: now)
    for moment in (1.0, 1.1, 1.2, 6.2):
        now = moment
        watch.batch([TextDelta("x", "t")])
    watch.finished(1, ls.Usage(), None, left=False)
    assert isinstance(told[-1], ls.CallFinished)
    assert told[-1].inter_p99_s == pytest.approx(5.0, rel=0.05)
