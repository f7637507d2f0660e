"""What `import llmstream` takes, beside what it cannot do without, in fresh processes by turns."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

BASE = "import asyncio, msgspec, anyio"
CASES = {
    "base": BASE,
    "llmstream": "import llmstream",
    "llmstream.stream": "import llmstream; llmstream.stream",
}
_TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def import_ms(rounds: int) -> dict[str, float]:
    """Median milliseconds of each import, compiled files being there."""
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for number in range(rounds + 1):
        for name, statement in CASES.items():
            found = process_ms(_TIMED.format(statement))
            if number:  # the first round compiles
                taken[name].append(found)
    return {name: statistics.median(values) for name, values in taken.items()}


def statement_ms(statement: str, rounds: int = 5) -> float:
    """Median milliseconds of one import, likewise."""
    return statistics.median([process_ms(_TIMED.format(statement)) for _ in range(rounds + 1)][1:])


def process_ms(code: str, *arguments: str) -> float:
    """The seconds that a new process prints, in ms; what it compiles is always kept."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout) * 1e3
