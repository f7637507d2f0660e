"""What a row of a map costs beside its request: CPU a row, and memory at the end.

Each reader is measured in a process of its own. "ask" is the floor: eight tasks that call `Model.ask` one
after the other and keep nothing. "map" writes every row to a file; "again" is the same map once more, when
all rows are there.

    python -m benchmarks.mapping map scripted 10000 FOLDER

measures one of them by itself, here without HTTP: the model is a script in the same process, so that
`valgrind --tool=callgrind` can count the instructions, which do not depend on the load of the machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import llmstream as ls
from benchmarks.arguments import arguments
from llmstream.testing import ScriptedModel

AT_ONCE = 8


def map_figures(base: str, rows: int, readers: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each reader us_per_row, CPU of the process; and peak_mb, of resident memory.

    readers: "again" comes behind "map", whose file it reads
    """
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name in readers:
            command = [sys.executable, "-m", "benchmarks.mapping", name, base, str(rows), folder]
            told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[name] = json.loads(told)
        return found


def _rows(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"id": number, "review": f"The review of customer {number}: it was fine, all in all."}


def _model(base: str) -> ls.Model[ls.Message]:
    if base == "scripted":
        return ScriptedModel("good", repeat_last=True)
    return ls.Model("openai:any", base_url=f"{base}/openai-chat/3/whole", api_key="key")


async def _asked(base: str, count: int) -> None:
    model, rows = _model(base), _rows(count)

    async def work() -> None:
        for row in rows:
            await model.ask(f"Classify: {row['review']}")

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def _mapped(base: str, count: int, folder: str) -> None:
    keep = Path(folder) / "answers.jsonl"
    prompt = "Classify: {{review}}"
    done = 0
    async with ls.map(_model(base), _rows(count), prompt=prompt, concurrency=AT_ONCE, keep=keep) as run:
        async for _ in run:
            done += 1
    assert done == count


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def main() -> None:
    """The body of a measuring process."""
    name, base, count, folder = arguments("NAME BASE ROWS FOLDER", __doc__)
    rows = int(count)
    asyncio.run(_asked(base, 100))  # imports, the first connections
    began = time.process_time()
    asyncio.run(_asked(base, rows) if name == "ask" else _mapped(base, rows, folder))
    us = (time.process_time() - began) * 1e6 / rows
    print(json.dumps({"us_per_row": us, "peak_mb": _peak_mb()}))


if __name__ == "__main__":
    main()
