"""The virtual clock: waits that take no time, over real sockets, and nothing lost to a jump."""

from __future__ import annotations

import asyncio
import time

import pytest

import llmstream as ls
from llmstream.testing import (
    Do,
    FaultServer,
    Pace,
    Refuse,
    Script,
    Simulator,
    Trickle,
    Turn,
    VirtualClock,
    answered,
    no_leaks,
)

SAYS = b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'


async def test_sleeps_run_in_order_of_their_end() -> None:
    ends: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        ends.append((name, round(clock.elapsed_s, 6)))

    began = time.monotonic()
    with VirtualClock() as clock:
        await asyncio.gather(sleep("day", 86_400), sleep("minute", 60), sleep("second", 1))
    assert ends == [("second", 1.0), ("minute", 60.0), ("day", 86_400.0)]
    assert time.monotonic() - began < 60


async def test_clock_stands_still_during_work() -> None:
    with VirtualClock() as clock:
        for _ in range(1000):
            await asyncio.sleep(0)
        time.sleep(0.01)  # noqa: ASYNC251  # real time passes, and does not count
        await asyncio.sleep(0)
        assert clock.elapsed_s == 0.0
        assert asyncio.get_running_loop().time() == clock.time()


async def test_timeout_comes_before_later_events() -> None:
    with VirtualClock() as clock:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.sleep(11)
        async with asyncio.timeout(10):
            await asyncio.sleep(9)
    assert clock.elapsed_s == pytest.approx(19)


async def test_work_in_a_thread_is_waited_for() -> None:
    with VirtualClock() as clock:
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.05)
        assert clock.elapsed_s == 0.0
        await asyncio.sleep(3)
        assert clock.elapsed_s == pytest.approx(3)


async def test_paced_response_takes_its_exact_time() -> None:
    """It comes over a socket."""
    script = Script((Turn(text="a b c d e", pace=Pace(first_s=600, delta_s=100)),))
    with VirtualClock() as clock:
        async with no_leaks(), Simulator(script) as simulator:
            model = ls.Model("anthropic:m", base_url=simulator.url, api_key="x")
            times = [
                round(clock.elapsed_s)
                async for event in model.events("?", deadlines=ls.Deadlines(first_event_s=601, idle_s=101))
                if isinstance(event, ls.TextDelta)
            ]
    assert times == [600, 700, 800, 900, 1000]


@pytest.mark.parametrize(("deadline", "after_s"), [("idle_s", 40.0), ("step_s", 70.0), ("total_s", 70.0)])
async def test_deadlines_pass_at_their_moment(deadline: str, after_s: float) -> None:
    script = answered(SAYS, 30.0, b": ping\n\n", 5.0, b": ping\n\n", Do.HANG)
    with VirtualClock() as clock:
        async with FaultServer(script) as server:
            model = ls.Model("openai:m", base_url=server.url, api_key="x")
            deadlines = ls.Deadlines(**{"idle_s": 1000.0, "first_event_s": 1000.0, deadline: after_s})
            with pytest.raises(ls.DeadlineExceeded, match=deadline):
                await model.stream("?", deadlines=deadlines).collect()
            assert clock.elapsed_s == pytest.approx(after_s, abs=1e-3)


async def test_a_megabyte_on_its_way_is_no_silence() -> None:
    body = b"".join(answered(*[SAYS] * 20_000, b"data: [DONE]\n\n"))
    with VirtualClock() as clock:
        async with FaultServer([body]) as server:
            model = ls.Model("openai:m", base_url=server.url, api_key="x")
            answer = await model.stream("?", deadlines=ls.Deadlines(idle_s=0.5)).collect()
    assert len(answer.text) == 60_000
    assert clock.elapsed_s == 0.0


async def test_trickling_bytes_each_take_time() -> None:
    with VirtualClock() as clock:
        async with FaultServer(answered(Trickle(SAYS, every_s=7.0), b"data: [DONE]\n\n")) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()
    assert clock.elapsed_s == pytest.approx(7.0 * len(SAYS))


async def test_a_limiter_keeps_to_the_same_time() -> None:
    limiter = ls.RateLimiter(requests_per_minute=2)
    with VirtualClock() as clock:
        async with Simulator(Script((Turn(text="a"),))) as simulator:
            model = ls.Model("anthropic:m", base_url=simulator.url, api_key="x", limiter=limiter)
            await asyncio.gather(*[model.stream("?").collect() for _ in range(4)])
    assert clock.elapsed_s == pytest.approx(60, abs=1)


async def test_backoff_is_waited_out() -> None:
    script = Script((Turn(fault=Refuse(status=429, retry_after_s=55)), Turn(text="a")))
    with VirtualClock() as clock:
        async with Simulator(script) as simulator:
            model = ls.Model("anthropic:m", base_url=simulator.url, api_key="x")
            await model.stream("?").collect()
    assert clock.elapsed_s == pytest.approx(55)


async def test_afterwards_time_goes_on_from_there() -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    with VirtualClock() as clock:
        await asyncio.sleep(1000)
    after = loop.time()
    assert after - before >= 999.9
    await asyncio.sleep(0.02)
    assert 0.015 <= loop.time() - after < 60
    assert clock.elapsed_s == pytest.approx(1000)


async def test_a_second_clock_is_refused() -> None:
    with (
        VirtualClock(),
        pytest.raises(ls.InvalidRequest, match="without another virtual clock"),
        VirtualClock(),
    ):
        pass
    with VirtualClock() as clock:
        await asyncio.sleep(5)
    assert clock.elapsed_s == pytest.approx(5)


async def test_a_clock_that_has_not_begun_says_so() -> None:
    with pytest.raises(ls.InvalidRequest):
        VirtualClock().time()
