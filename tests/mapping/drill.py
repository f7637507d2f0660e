"""A map of many rows whose process is killed with SIGKILL again and again, and started again.

    python -m tests.mapping.drill                   the full form: a million rows, some 30 s between kills
    python -m tests.mapping.drill --rows 100000 --kill-every 20000

Prints how many rows were asked more than once, the memory of the process, and the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

import llmstream as ls
from tests.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 32

ANSWER = b"".join(
    b"data: %s\n\n" % data
    for data in (
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"good"}}]}',
        b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}',
        b"[DONE]",
    )
)


class Vendor:
    """Answers every request, and counts those of each row. Written by hand, to be no part of the figures."""

    def __init__(self, rows: int) -> None:
        self.progress = Progress("rows asked", rows)
        self.kills = 0
        self.asked = Counter[int]()
        self.total = 0
        self.reached = asyncio.Event()
        self.kill_at = 0

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked[int(body["messages"][0]["content"].rpartition(" ")[2])] += 1
        self.total += 1
        self.progress.step(f"{self.kills} kills")
        if self.total == self.kill_at:
            self.reached.set()
        return web.Response(body=ANSWER, content_type="text/event-stream")


@dataclass
class Figures:
    """What a drill has measured.

    twice:  requests beyond one a row: what was under way at a kill is asked again
    rss_mb: the most resident memory of the mapping process
    """

    rows: int
    kills: int
    twice: int
    rss_mb: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows over {self.kills} kills in {self.seconds:.0f} s, "
            f"{self.rows / self.seconds:,.0f} a second; {self.twice} asked again (at most {AT_ONCE} a kill); "
            f"{self.rss_mb:.0f} MB at most"
        )


def peak_mb(pid: int) -> float:
    """The most resident memory so far; 0 without /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return float(found[0]) / 1024 if found else 0.0


async def run(folder: Path, *, rows: int, kill_every: int) -> Figures:
    """One drill: until all rows are there, each once.

    kill_every: requests between two kills
    """
    vendor, output, kills, rss_mb = Vendor(rows), folder / "answers.jsonl", 0, 0.0
    app = web.Application()
    app.router.add_post("/{path:.*}", vendor.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    address = f"http://{host}:{port}"
    began = time.monotonic()
    try:
        while True:
            vendor.reached.clear()
            vendor.kill_at = vendor.total + kill_every
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.mapping.drill", "--work", address),
                *("--rows", str(rows), "--output", str(output)),
                cwd=ROOT,
            )
            ended = asyncio.ensure_future(process.wait())
            reached = asyncio.ensure_future(vendor.reached.wait())
            while not (ended.done() or reached.done()):
                rss_mb = max(rss_mb, peak_mb(process.pid))
                await asyncio.wait({ended, reached}, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            rss_mb = max(rss_mb, peak_mb(process.pid))
            reached.cancel()
            if ended.done():
                assert process.returncode == 0, process.returncode
                break
            process.kill()
            await ended
            kills = vendor.kills = kills + 1
    finally:
        await runner.cleanup()
    seconds = time.monotonic() - began
    check(output, rows, vendor)
    return Figures(rows, kills, vendor.total - rows, rss_mb, seconds)


def check(output: Path, rows: int, vendor: Vendor) -> None:
    """Every row is there once, and has its answer."""
    seen = bytearray(rows)
    with open(output, "rb") as file:
        for line in file:
            found = json.loads(line)
            assert found["answer"] == "good", found
            seen[found["id"]] += 1
    assert seen == bytearray(b"\1") * rows
    assert len(vendor.asked) == rows


def items(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"id": number, "review": f"The review of customer {number}"}


async def work(address: str, rows: int, output: Path) -> None:
    """The process that is killed."""
    model = ls.Model("openai:any", base_url=address, api_key="key")
    options: dict[str, Any] = {"prompt": "Classify: {{review}}", "concurrency": AT_ONCE, "keep": output}
    async with ls.map(model, items(rows), **options) as run:
        async for _ in run:
            pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kill-every", type=int, default=30_000, metavar="ROWS")
    parser.add_argument("--work", metavar="ADDRESS", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        asyncio.run(work(given.work, given.rows, given.output))
        return
    with tempfile.TemporaryDirectory(prefix="map") as folder:
        figures = asyncio.run(run(Path(folder), rows=given.rows, kill_every=given.kill_every))
    print(figures)
    if figures.twice > AT_ONCE * figures.kills or figures.rss_mb > 250:
        sys.exit(f"the drill failed: at most {AT_ONCE} rows a kill asked again, and 250 MB")


if __name__ == "__main__":
    main()
