"""A limiter between calls and a vendor: what it holds back, and that every way out makes room."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import pytest
from aiohttp import web

import llmstream as ls

_spec = importlib.util.spec_from_file_location("sse_server", Path(__file__).parent / "sse_server.py")
assert _spec is not None
assert _spec.loader is not None
sse = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sse)

SLOW = [sse.chunk("Hel"), 30.0, sse.chunk("lo")]


def model(url: str, limiter: ls.RateLimiter, **options: object) -> ls.Model:
    return ls.Model("openai:m1", base_url=url, api_key="k", limiter=limiter, **options)  # type: ignore[arg-type]


async def hello(request: web.Request) -> web.StreamResponse:
    return await sse.answer(request, sse.HELLO)


async def slow(request: web.Request) -> web.StreamResponse:
    return await sse.answer(request, SLOW)


async def test_models_sharing_limiter_share_slots(serve) -> None:
    under_way = most = 0

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return await sse.answer(request, sse.HELLO)

    url, limiter = await serve(counted), ls.RateLimiter(max_concurrent=2)
    models = [model(url, limiter), model(url, limiter)]
    async with asyncio.timeout(5):
        messages = await asyncio.gather(*(models[i % 2].stream("Hi").collect() for i in range(8)))
    assert [message.text for message in messages] == ["Hello"] * 8
    assert most == 2
    assert (limiter.under_way, limiter.waiting) == (0, 0)


async def test_left_stream_frees_its_slot_at_once(serve) -> None:
    limiter = ls.RateLimiter(max_concurrent=1)
    async with model(await serve(slow), limiter).stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
        assert limiter.under_way == 1
    assert limiter.under_way == 0


async def test_cancelled_task_frees_its_slot(serve) -> None:
    """Whether it waits or runs."""
    limiter = ls.RateLimiter(max_concurrent=1)
    asked = model(await serve(slow), limiter)
    tasks = [asyncio.create_task(asked.stream("Hi").collect()) for _ in range(3)]
    async with asyncio.timeout(5):
        while limiter.under_way != 1 or limiter.waiting != 2:
            await asyncio.sleep(0.005)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (limiter.under_way, limiter.waiting) == (0, 0)


async def test_waiting_counts_in_total_deadline(serve, llm_virtual_clock) -> None:
    """It counts in no other deadline."""
    limiter = ls.RateLimiter(max_concurrent=1)
    permit = await limiter.acquire()
    deadlines = ls.Deadlines(first_event_s=60, step_s=60, total_s=900)
    with pytest.raises(ls.DeadlineExceeded) as caught:
        await model(await serve(hello), limiter, deadlines=deadlines).stream("Hi").collect()
    assert caught.value.reason == "total"
    assert llm_virtual_clock.elapsed_s == pytest.approx(900)
    permit.release()
    assert (limiter.under_way, limiter.waiting) == (0, 0)


async def test_refusal_frees_slot_and_pauses_all(serve) -> None:
    """The slot is free before the next attempt."""
    held: list[int] = []
    limiter = ls.RateLimiter(max_concurrent=1)

    async def refused_once(request: web.Request) -> web.StreamResponse:
        held.append(limiter.under_way)
        if len(held) > 1:
            return await sse.answer(request, sse.HELLO)
        return web.json_response(
            {"error": {"message": "slow"}}, status=429, headers={"retry-after-ms": "150"}
        )

    began = asyncio.get_running_loop().time()
    asked = model(await serve(refused_once), limiter)
    first = asyncio.create_task(asked.stream("Hi").collect())
    while not held:
        await asyncio.sleep(0.005)
    await asked.stream("Hi").collect()
    assert asyncio.get_running_loop().time() - began >= 0.15
    assert (await first).text == "Hello"
    assert held == [1, 1, 1]
    assert limiter.under_way == 0


async def test_usage_and_headers_correct_estimate(serve) -> None:
    go_on = asyncio.Event()

    async def told(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream", "x-ratelimit-remaining-requests": "7"}
        )
        await response.prepare(request)
        await response.write(sse.HELLO[0])
        await go_on.wait()
        for piece in sse.HELLO[1:]:
            await response.write(piece)
        return response

    limiter = ls.RateLimiter(requests_per_minute=60, tokens_per_minute=6000, clock=lambda: 0.0)
    asked = model(await serve(told), limiter).stream("Hi", settings=ls.Settings(max_output_tokens=4000))
    await asked.next()
    assert limiter._pacer.levels[1] < 2000
    go_on.set()
    while await asked.next():
        pass
    assert limiter._pacer.levels[1] == 6000 - 5
    assert limiter._pacer.levels[0] == 7
