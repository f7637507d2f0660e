"""What `import llmstream` takes, beside what it cannot do without, in fresh processes by turns."""

from __future__ import annotations

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
            command = [sys.executable, "-c", _TIMED.format(statement)]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            if number:  # the first round compiles
                taken[name].append(float(told) * 1e3)
    return {name: statistics.median(values) for name, values in taken.items()}
