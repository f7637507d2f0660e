"""`python -m benchmarks`: microseconds of CPU an event, llmstream beside the floor, per framing.

Each line is the median of several rounds; floor and library take turns in one process against
one replay server in another. All readers are checked to have seen the same text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable

import aiohttp

import llmstream as ls
from benchmarks import server
from benchmarks.floor import FLOORS

PROVIDERS = {"openai-chat": "openai", "anthropic": "anthropic", "ollama": "ollama"}
Reader = Callable[[], Awaitable[str]]


def readers(family: str, url: str, session: aiohttp.ClientSession) -> dict[str, Reader]:
    """The floor, and llmstream at three depths."""
    model = ls.Model(f"{PROVIDERS[family]}:any", base_url=url, api_key="key", session=session)

    async def floor() -> str:
        async with session.post(url, json={}) as response:
            return "".join([text async for text in FLOORS[family](response)])

    async def bare_events() -> str:
        return "".join([e.delta async for e in model.events("Hi") if type(e) is ls.TextDelta])

    async def event_stream() -> str:
        async with model.stream("Hi") as stream:
            return "".join([e.delta async for e in stream if type(e) is ls.TextDelta])

    async def accumulated() -> str:
        async with model.stream("Hi") as stream:
            async for _ in stream:
                pass
            return stream.message.text_content

    return {"floor": floor, "events": bare_events, "stream": event_stream, "message": accumulated}


async def measure(family: str, mode: str, base: str, count: int, rounds: int) -> dict[str, float]:
    """Median microseconds of CPU an event, reader by reader."""
    taken: dict[str, list[float]] = {}
    texts: dict[str, int] = {}
    async with aiohttp.ClientSession() as session:
        ways = readers(family, f"{base}/{family}/{count}/{mode}", session)
        for number in range(rounds + 1):
            for name, read in ways.items():
                started = time.process_time()
                texts[name] = hash(await read())
                if number:  # the first round warms up
                    taken.setdefault(name, []).append((time.process_time() - started) / count * 1e6)
    if len(set(texts.values())) != 1:
        raise SystemExit(f"{family}/{mode}: the readers did not see the same text")
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Runs everything and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="content events in one stream")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", action="store_true", help="figures as JSON, one line a case")
    args = parser.parse_args()
    if args.quick:
        args.events, args.rounds = 5_000, 3
    if not args.json:
        print(f"CPU per event in microseconds, {args.events} events, median of {args.rounds} rounds")
        print(f"{'dialect':12} {'writes':9} {'floor':>7} {'events':>13} {'stream':>13} {'message':>13}")
    with server.running() as base:
        for family in FLOORS:
            for mode in ("blocks", "events"):
                found = asyncio.run(measure(family, mode, base, args.events, args.rounds))
                report(family, mode, found, as_json=args.json)


def report(family: str, mode: str, found: dict[str, float], *, as_json: bool) -> None:
    """One line."""
    if as_json:
        print(json.dumps({"dialect": family, "writes": mode, "us_per_event": found}), flush=True)
        return
    floor = found["floor"]
    cells = [f"{found[name]:6.2f} {found[name] / floor:5.2f}x" for name in ("events", "stream", "message")]
    print(f"{family:12} {mode:9} {floor:7.2f} {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
