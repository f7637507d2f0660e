"""What floods may cost: rows 29, 30 and 32, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, sys, zlib
import llmstream as ls
from llmstream.testing import FaultServer, Flood, answered, head

START = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\\n\\n'
MB = b"x" * 1_000_000
DONE = b"data: [DONE]\\n\\n"

def bomb():
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(START)] + [packer.compress(MB) for _ in range(300)] + [packer.flush()]
    return answered(b"".join(packed), headers={"content-encoding": "gzip"})

CASES = {
    "line": lambda: answered(START, b"data: ", *[MB] * 100),
    "event": lambda: answered(START, *[b"data: " + MB + b"\\n"] * 100),
    "bomb": bomb,
    "error body": lambda: [head(500, {"content-length": "200000000"}), Flood(MB, 200)],
    "html": lambda: [head(200, {"content-type": "text/html", "content-length": "200000000"}), Flood(MB, 200)],
    "tiny": lambda: answered(Flood(START * 500, 400), DONE),
    "empty": lambda: answered(START, Flood(b"\\n\\n:\\n\\n" * 5000, 40), DONE),
}

def peak_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

async def main():
    async with FaultServer(CASES[sys.argv[1]]()) as server:
        once = ls.Retry(max_retries=0)
        model = ls.Model("openai:m", base_url=server.url, api_key="sk-test-key", retry=once)
        before, count, outcome = peak_mb(), 0, "none"
        try:
            async for event in model.events("Hi"):
                count += 1
        except ls.LLMStreamError as error:
            outcome = type(error).__name__
        print(outcome, count, peak_mb() - before)

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("case", "outcome", "count"),
    [
        ("line", "LimitExceeded", 2),  # row 29
        ("event", "LimitExceeded", 2),
        ("tiny", "none", 200_000),  # row 30, scaled down by five
        ("empty", "none", 2),
        ("bomb", "LimitExceeded", 2),  # row 32
        ("error body", "ServerError", 2),
        ("html", "LimitExceeded|NotAStream", 2),
    ],
)
def test_a_flood_costs_at_most_64_mb(case, outcome, count) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, case], capture_output=True, text=True, timeout=20, check=True
    )
    said, events, grown = run.stdout.split()
    assert said in outcome.split("|")
    assert int(events) >= count
    assert float(grown) < 64
