"""`scripts/soak`: 20 000 streams, 1 000 at a time, from a server that misbehaves; nothing may be left."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from soak.cases import Case, case_of
from soak.client import Client
from soak.held import Held, allow_descriptors, held

ROOT = Path(__file__).resolve().parents[1]

_BLOCKS_PER_STREAM = 0.5  # a stream that leaves a single object behind counts 1 or more
_BLOCKS_FREE = 5_000  # caches that fill once, such as of code that had not run before
_RSS_PER_STREAM_KB = 0.5
_RSS_FREE_KB = 24_000  # what the allocator keeps of its largest moment
_SHOWN_FAULTS = 10


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--streams", type=int, default=20_000, help="how many (20000)")
    parser.add_argument("--concurrent", type=int, default=1_000, help="how many at a time (1000)")
    parser.add_argument("--seed", type=int, default=0, help="what happens to which (0)")
    options = parser.parse_args()
    allow_descriptors()
    return asyncio.run(soak(options.streams, options.concurrent, options.seed))


async def soak(streams: int, concurrent: int, seed: int) -> int:
    """Runs it all; gives 0 where every stream ended as it should and nothing was left."""
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "soak.server",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        client = Client((await _told(server))["url"])
        warm = max(streams // 5, min(concurrent, streams // 2))
        began = time.monotonic()
        run = Run(client, streams, began)
        await run.through((case_of(seed, number) for number in range(warm)), concurrent)
        before = await held()
        await run.through((case_of(seed, number) for number in range(warm, streams)), concurrent)
        after = await held()
        wrong = [*run.wrong, *_left(before, after, streams - warm), *await _open(server)]
    finally:
        assert server.stdin is not None  # it was asked for
        server.stdin.close()
        await server.wait()
    _say(run, wrong, before, after, time.monotonic() - began)
    return 1 if wrong else 0


class Run:
    """Cases that are read side by side."""

    def __init__(self, client: Client, streams: int, began: float) -> None:
        self.wrong: list[str] = []
        self.kinds: Counter[str] = Counter()
        self._client = client
        self._streams = streams
        self._began = self._shown = began

    async def through(self, cases: Iterator[Case], concurrent: int) -> None:
        """Reads them all, so many at a time."""
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrent):
                group.create_task(self._reader(cases))

    async def _reader(self, cases: Iterator[Case]) -> None:
        for case in cases:
            try:
                fault = await self._client.read(case)
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
            self.kinds[case.kind] += 1
            if fault is not None:
                self.wrong.append(f"stream {case.number} ({case.wire}, {case.kind}): {fault}")
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown >= 1:
            self._shown = now
            done = self.kinds.total()
            rate = done / (now - self._began)
            print(
                f"\r{done:>8,} of {self._streams:,}  {rate:,.0f}/s  {len(self.wrong)} wrong",
                end="",
                flush=True,
            )


def _left(before: Held, after: Held, streams: int) -> Iterator[str]:
    """What has grown since the warm-up that should not have."""
    for name in ("descriptors", "tasks", "threads"):
        was, now = getattr(before, name), getattr(after, name)
        if now > was:
            yield f"{name}: {was} after the warm-up, {now} at the end"
    blocks, rss_kb = after.blocks - before.blocks, after.rss_kb - before.rss_kb
    if blocks > _BLOCKS_FREE + _BLOCKS_PER_STREAM * streams:
        yield f"memory: {blocks:,} blocks more after {streams:,} streams"
    if rss_kb > _RSS_FREE_KB + _RSS_PER_STREAM_KB * streams:
        yield f"memory: {rss_kb:,} kB more after {streams:,} streams"


async def _open(server: asyncio.subprocess.Process) -> list[str]:
    """Whether the server still holds connections, given a moment to see them go."""
    still = 0
    for _ in range(20):
        assert server.stdin is not None  # it was asked for
        server.stdin.write(b"\n")
        still = (await _told(server))["open"]
        if not still:
            return []
        await asyncio.sleep(0.1)
    return [f"the server still has {still} connections"]


async def _told(server: asyncio.subprocess.Process) -> dict[str, object]:
    assert server.stdout is not None  # it was asked for
    line = await server.stdout.readline()
    if not line:
        raise RuntimeError("the server of the soak has ended")
    return json.loads(line)


def _say(run: Run, wrong: list[str], before: Held, after: Held, seconds: float) -> None:
    done = run.kinds.total()
    print(
        f"\r{done:,} streams in {seconds:.0f} s: "
        + ", ".join(f"{n} {kind}" for kind, n in run.kinds.most_common())
    )
    for name in Held.__struct_fields__:
        print(
            f"{name:<12} {getattr(before, name):>12,} after the warm-up",
            f"{getattr(after, name):>12,} at the end",
        )
    for line in wrong[:_SHOWN_FAULTS]:
        print(f"wrong: {line}")
    print(f"{'FAILED' if wrong else 'passed'}: {len(wrong)} wrong")


if __name__ == "__main__":
    sys.exit(main())
