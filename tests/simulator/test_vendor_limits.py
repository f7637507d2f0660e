"""Rate limits of the simulator: token buckets over all of its clients."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.testing import Script, Simulator, Turn, VendorLimits

NO_RETRY = ls.Retry(max_retries=0)


def model(simulator: Simulator) -> ls.Model:
    return ls.Model("openai:sim", base_url=simulator.url, api_key="k", retry=NO_RETRY)


async def test_requests_beyond_the_limit_get_429() -> None:
    now = 0.0
    limits = VendorLimits(requests_per_minute=2, clock=lambda: now)
    async with Simulator(Script((Turn(text="Hi."),)), limits=limits) as simulator:
        for _ in range(2):
            await model(simulator).ask("Hi")
        with pytest.raises(ls.RateLimited, match="limit 2 requests a minute") as refused:
            await model(simulator).ask("Hi")
        assert refused.value.retry_after_s == 30.0
        assert (limits.admitted, limits.refused, limits.taken) == (2, 1, {"requests": 2.0})
        now = 30.0
        await model(simulator).ask("Hi")


async def test_tokens_are_estimated_as_by_vendors() -> None:
    limits = VendorLimits(tokens_per_minute=1000, clock=lambda: 0.0)
    async with Simulator(Script((Turn(text="Hi."),)), limits=limits) as simulator:
        await model(simulator).ask("Hi", settings=ls.Settings(max_output_tokens=900))
        with pytest.raises(ls.RateLimited, match="limit 1000 tokens"):
            await model(simulator).ask("Hi", settings=ls.Settings(max_output_tokens=900))
        assert 900 < limits.taken["tokens"] < 1000


async def test_headers_say_what_is_left() -> None:
    limits = VendorLimits(requests_per_minute=60, clock=lambda: 0.0)
    async with Simulator(Script((Turn(text="Hi."),)), limits=limits) as simulator:
        limiter = ls.RateLimiter(requests_per_minute=6000)
        await ls.Model("openai:sim", base_url=simulator.url, api_key="k", limiter=limiter).ask("Hi")
        assert limiter._pacer.levels[0] == pytest.approx(59, abs=5)  # type: ignore[union-attr]
    assert limits.headers()["x-ratelimit-remaining-requests"] == "59"
    limits.empty()
    assert limits.headers()["x-ratelimit-remaining-requests"] == "0"
    assert VendorLimits(requests_per_minute=1, with_headers=False).headers() == {}
