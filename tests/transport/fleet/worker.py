"""One process of a drill: sends requests at an even pace through a shared limiter, and reports its counts.

It reads its orders as one line of JSON, says that it is ready, and begins at the next line. With `clock_s`
its wall clock is wrong by so much. With `hold` it takes permits and holds them, and sends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from typing import Any

import llmstream as ls
from llmstream.transport.fleet import Fleet

PATIENCE_S = 45.0


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


async def drill(orders: dict[str, Any]) -> None:
    limiter = ls.RateLimiter(shared=orders["shared"], name=orders["name"], **orders["limits"])
    model = ls.Model(
        "openai:sim", base_url=orders["url"], api_key="k", limiter=limiter, retry=ls.Retry(max_retries=0)
    )
    counts = {"answers": 0, "refused": 0, "failed": 0}

    async def one(number: int) -> None:
        try:
            await model.ask("Hi", settings=ls.Settings(max_output_tokens=orders.get("output") or None))
            counts["answers"] += 1
        except ls.RateLimited:
            counts["refused"] += 1
        except ls.LLMStreamError as error:
            counts["failed"] += 1
            say(error=repr(error))

    # Loads what a request loads.
    await ls.Model("openai:sim", base_url=orders["url"], api_key="k", retry=ls.Retry(max_retries=9)).ask("Hi")
    say(ready=True)
    await asyncio.to_thread(sys.stdin.readline)
    began, sent = time.monotonic(), 0
    tasks = set[asyncio.Task[None]]()
    phase = random.random()
    while (now := time.monotonic() - began) < orders["seconds"] or (
        counts["answers"] < orders["least"] and now < PATIENCE_S
    ):
        while sent + phase < now * orders["per_second"]:
            task = asyncio.ensure_future(one(sent))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.01)
    waiting = limiter.waiting
    (member,) = fleet(limiter).members
    trips = member.trips
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    say(done=True, trips=trips, waiting=waiting, sent=sent, **counts)
    await limiter.aclose()


async def hold(orders: dict[str, Any]) -> None:
    """Takes `permits` and holds them; joins the line behind them, `wait` and `queue` times."""
    limiter = ls.RateLimiter(shared=orders["shared"], name=orders["name"], **orders["limits"])
    held = [await limiter.acquire(**orders.get("cost", {})) for _ in range(orders.get("permits", 0))]
    waiting = [asyncio.ensure_future(limiter.acquire()) for _ in range(orders.get("wait", 0))]
    cost = orders.get("cost", {})
    waiting += [asyncio.ensure_future(limiter.acquire(**cost)) for _ in range(orders.get("queue", 0))]
    await asyncio.sleep(0)
    (member,) = fleet(limiter).members
    while member._ops or not all(waiter.denied for waiter in member._waiters.values()):
        await asyncio.sleep(0.005)
    say(ready=True, held=len(held))
    await asyncio.to_thread(sys.stdin.readline)
    for permit in held:
        permit.release()
    for task in waiting:
        task.cancel()
    await limiter.aclose()
    say(done=True)


def fleet(limiter: ls.RateLimiter) -> Fleet:
    assert isinstance(limiter._pacer, Fleet)
    return limiter._pacer


def main() -> None:
    orders = json.loads(sys.stdin.readline())
    if shift := orders.get("clock_s"):
        right = time.time
        time.time = lambda: right() + shift
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(hold(orders) if orders.get("hold") else drill(orders))


if __name__ == "__main__":
    main()
