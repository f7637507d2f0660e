"""What floods may cost: rows 29, 30 and 32, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys, zlib
sys.path.insert(0, sys.argv[2])
import llmstream as ls
from faultmatrix.asking import answered as answered_by
from faultmatrix.wires import WIRES
from faultmatrix.sowing import sow
from llmstream.testing import FaultServer, Flood, head

sow()
WIRE = WIRES[sys.argv[1]]
START, PIECE, DONE = WIRE.half, WIRE.text("x"), WIRE.closing
MB = b"x" * 1_000_000
NAME = b"" if WIRE.framing == "ndjson" else b"data: "

def answered(*steps, **options):
    return answered_by(WIRE, *steps, **options)

def bomb():
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(START)] + [packer.compress(MB) for _ in range(300)] + [packer.flush()]
    return answered(b"".join(packed), headers={"content-encoding": "gzip"})

CASES = {
    "line": lambda: answered(START, NAME, *[MB] * 100),
    "event": lambda: answered(START, *[b"data: " + MB + b"\\n"] * 100),
    "bomb": bomb,
    "error body": lambda: [head(500, {"content-length": "200000000"}), Flood(MB, 200)],
    "html": lambda: [head(200, {"content-type": "text/html", "content-length": "200000000"}), Flood(MB, 200)],
    "tiny": lambda: answered(START, Flood(PIECE * 500, 400), DONE),
    "empty": lambda: answered(START, Flood(b"\\n\\n:\\n\\n" * 5000, 40), DONE),
}

def peak_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

async def main():
    async with FaultServer(CASES[sys.argv[3]]()) as server:
        once = ls.Retry(max_retries=0)
        model = WIRE.model(server.url, api_key="sk-test-key", retry=once)
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
    ("wire", "case", "outcome", "count"),
    [
        ("openai-chat", "line", "LimitExceeded", 2),  # row 29
        ("openai-chat", "event", "LimitExceeded", 2),
        ("anthropic", "line", "LimitExceeded", 2),
        ("anthropic", "event", "LimitExceeded", 2),
        ("ollama", "line", "LimitExceeded", 2),
        ("openai-chat", "tiny", "none", 200_000),  # row 30, scaled down by five
        ("openai-chat", "empty", "none", 2),
        ("anthropic", "tiny", "none", 200_000),
        ("openai-chat", "bomb", "LimitExceeded", 2),  # row 32
        ("openai-chat", "error body", "ServerError", 2),
        ("openai-chat", "html", "LimitExceeded|NotAStream", 2),
    ],
)
@pytest.mark.row(29, 30, 32)
def test_a_flood_costs_at_most_64_mb(wire, case, outcome, count) -> None:
    command = [sys.executable, "-c", SCRIPT, wire, str(Path(__file__).parent), case]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    said, events, grown = run.stdout.split()
    assert said in outcome.split("|")
    assert int(events) >= count
    assert float(grown) < 64
