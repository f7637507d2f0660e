"""A fleet under load: processes with one shared limiter ask a vendor that enforces its limits.

    python -m tests.transport.fleet.drill                       the full form: 8 processes, 5 minutes, Redis
    python -m tests.transport.fleet.drill --seconds 20 --store sqlite

Prints what was refused, how much of the limit was used, how even the shares were, and the trips to the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmstream import Usage
from llmstream.testing import Script, Simulator, Turn, VendorLimits
from llmstream.transport.fleet import store_at
from llmstream.transport.fleet.rules import Batch, Learn
from tests.progress import Progress
from tests.redis_servers import RedisServer

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 60.0


class Worker:
    """A process that follows orders and reports in lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def report(self, key: str) -> dict[str, Any]:
        """The next report that has this key."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := await self.process.stdout.readline():
                found: dict[str, Any] = json.loads(line)
                if key in found:
                    return found
                print(found, file=sys.stderr)
        raise AssertionError(f"the process ended without {key!r}: {self.process.returncode}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def workers(orders: list[dict[str, Any]]) -> AsyncIterator[list[Worker]]:
    """Processes that are ready."""
    started = list[Worker]()
    try:
        for order in orders:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.transport.fleet.worker"),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdin is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            started.append(Worker(process))
        for worker in started:
            await worker.report("ready")
        yield started
    finally:
        for worker in started:
            await worker.kill()


@dataclass
class Figures:
    """What a drill has measured.

    use:   of the vendor's limit
    jain:  how even the shares of the processes were, 1 at best
    trips: to the store, for each request that was sent
    """

    requests: int
    refused: float
    use: float
    jain: float
    trips: float
    waiting: int
    failed: int
    answers_least: int

    def __str__(self) -> str:
        return (
            f"{self.requests} requests, {self.refused:.2%} refused, use {self.use:.1%}, "
            f"Jain {self.jain:.4f}, {self.trips:.2f} trips a grant, "
            f"{self.waiting} waiting at the end, {self.failed} failed"
        )


async def run(
    shared: str,
    *,
    processes: int = 8,
    seconds: float = 300.0,
    per_minute: float = 6000.0,
    demand: float = 1.5,
    headers: bool = True,
    clocks_s: float = 0.0,
    tokens: int = 0,
    least: int = 0,
) -> Figures:
    """One drill, with buckets that are empty at first.

    demand:   of the limit
    clocks_s: the wall clocks of processes are wrong by up to so much, in both directions
    tokens:   limits these a request in place of requests
    least:    goes on until each process has so many answers
    """
    kind = "tokens_per_minute" if tokens else "requests_per_minute"
    limit = per_minute * (tokens + 20) if tokens else per_minute
    name = f"drill-{id(object()):x}"
    limits = VendorLimits(**{kind: limit}, with_headers=headers)  # type: ignore[arg-type]
    # It counts estimates, so what a response reports must not be less.
    turn = Turn(text="Hello.", usage=Usage(input_tokens=45, output_tokens=max(1, tokens)))
    async with Simulator(Script((turn,)), limits=limits) as vendor:
        order = {"shared": shared, "name": name, "url": vendor.url, "seconds": seconds, "output": tokens}
        order |= {"least": least}
        order |= {"limits": {kind: limit}, "per_second": per_minute / 60 * demand / processes}
        shifts = [clocks_s * (number % 3 - 1) for number in range(processes)]
        async with workers([{**order, "clock_s": shift} for shift in shifts]) as fleet:
            await emptied(shared, name, [0.0 if tokens else limit, limit if tokens else 0.0, 0.0, 0.0])
            limits.empty()
            refused, admitted, before = limits.refused, limits.admitted, sum(limits.taken.values())
            for worker in fleet:
                worker.go()
            progress, loop = Progress("seconds", round(seconds)), asyncio.get_running_loop()
            until = loop.time() + seconds
            while (left := until - loop.time()) > 0:
                await asyncio.sleep(min(1.0, left))
                share = (sum(limits.taken.values()) - before) / limit * 60 / (seconds - until + loop.time())
                progress.step(f"use {share:.1%}, {limits.refused - refused} refused")
            used = (sum(limits.taken.values()) - before) / (limit * seconds / 60)
            reports = [await worker.report("done") for worker in fleet]
    shares = [report["answers"] for report in reports]
    refused, admitted = limits.refused - refused, limits.admitted - admitted
    total = refused + admitted
    return Figures(
        total,
        refused / max(1, total),
        used,
        sum(shares) ** 2 / max(1, len(shares) * sum(share**2 for share in shares)),
        sum(report["trips"] for report in reports) / max(1, total),
        sum(report["waiting"] for report in reports),
        sum(report["failed"] for report in reports),
        min(shares),
    )


async def emptied(shared: str, name: str, sizes: list[float]) -> None:
    store = store_at(shared, name)()
    try:
        learn = Learn([-1.0] * 4, [0.0] * 4, [], 0.0)
        await store.apply(Batch("drill", False, sizes, 0, 30.0, [learn]))
    finally:
        await store.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["redis", "sqlite"], default="redis")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--per-minute", type=float, default=6000.0, help="the limit, in requests")
    parser.add_argument("--demand", type=float, default=1.5, help="of the limit")
    parser.add_argument(
        "--tokens", type=int, default=0, help="limit tokens, with so many of output a request"
    )
    parser.add_argument("--clocks", type=float, default=0.0, help="seconds by which clocks are wrong")
    parser.add_argument("--no-headers", action="store_true", help="the vendor reports no limits")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drill") as folder:
        server = RedisServer(Path(folder)) if given.store == "redis" else None
        try:
            if server is not None:
                server.start()
            figures = asyncio.run(
                run(
                    server.url if server is not None else f"sqlite:{folder}/limits.db",
                    processes=given.processes,
                    seconds=given.seconds,
                    per_minute=given.per_minute,
                    demand=given.demand,
                    headers=not given.no_headers,
                    clocks_s=given.clocks,
                    tokens=given.tokens,
                )
            )
        finally:
            if server is not None:
                server.kill()
    print(figures)
    if figures.refused > 0.005 or figures.use < 0.95 or figures.jain < 0.98 or figures.trips > 2.0:
        sys.exit("the drill failed: at most 0.5 % refused, 95 % used, Jain 0.98, 2 trips a grant")


if __name__ == "__main__":
    main()
