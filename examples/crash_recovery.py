"""Crash recovery: a process ends while a tool runs, and another continues from the journal.

Each call is on disk before it runs, and its result after. The second process reads the journal and
continues; the model learns which calls may have had effects. No call runs twice.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _arguments import SCRIPTS, model

import llmstream as ls


@ls.tool
async def charge(euros: int) -> str:
    """Charge the card."""
    print(f"charging {euros} euros", flush=True)
    return "charged"


@ls.tool
async def ship(order: str) -> str:
    """Ship the order."""
    if "CRASHES" in os.environ:
        print(f"shipping {order} ... and the power fails", flush=True)
        os._exit(9)
    return "shipped"


def clerk(spec: str, path: Path) -> ls.Agent:
    return ls.Agent(spec, name="clerk", tools=[charge, ship], journal=ls.Journal(path))


async def begin(spec: str, path: Path) -> None:
    await clerk(spec, path).run("Charge 20 euros and ship order 17.")


async def go_on(spec: str, path: Path) -> None:
    agent = clerk(spec, path)
    history = agent.recover(path)
    for result in (result for message in history for result in message.tool_results):
        print(f"{result.name}: {result.content}")
    run = agent.stream([*history, ls.Message.user("Go on.")])
    print((await run.collect()).text)


if __name__ == "__main__":
    spec = model(__doc__, f"sim:{SCRIPTS / 'order.json'}")
    if "CRASHES" in os.environ:
        asyncio.run(begin(spec, Path(os.environ["CRASHES"])))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal"
            first = subprocess.run([sys.executable, *sys.argv], env={**os.environ, "CRASHES": str(path)})
            print(f"the first process ended with {first.returncode}", flush=True)
            asyncio.run(go_on(spec.replace("order", "order_again"), path))
