"""Shows one run live while its workers are killed: in the middle of a tool, and while it waits for a person.

The reader is this process. It leaves nothing out and shows nothing twice: a `retry` event says which step
was void.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import llmstream as ls
from llmstream.durable import Runs
from llmstream.events import RetryNotice

WORKER = Path(__file__).with_name("worker.py")


def start(place: str) -> subprocess.Popen[bytes]:
    worker = subprocess.Popen([sys.executable, str(WORKER), place])
    print(f"\n[worker {worker.pid} starts]")
    return worker


def kill(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()  # SIGKILL: no cleanup of any kind
    worker.wait()
    print(f"\n[worker {worker.pid} is killed]", end="")


async def main(place: str) -> None:
    async with Runs(place) as runs:
        await runs.submit("clerk", "order-17", "Ship order 17.")
        worker, killed = start(place), False
        try:
            async for _, event in runs.logs.follow("order-17", wait_s=30):
                match event:
                    case ls.TextDelta(text):
                        print(text, end="", flush=True)
                    case ls.ToolCall(name, given):
                        print(f"\n  {name}({given})", flush=True)
                    case ls.ToolResult(result, preliminary=True):
                        print(f"    {result}", flush=True)
                        if not killed and "item 3" in str(result):
                            killed = True
                            kill(worker)
                            worker = start(place)
                    case ls.ToolResult(result):
                        print(f"  -> {result}", flush=True)
                    case RetryNotice(discard_step=step):
                        print(f"[step {step} is void and begins again]")
                    case ls.ToolApprovalRequest(approval_id=approval):
                        kill(worker)
                        await runs.decide("order-17", {approval: True})
                        print("\n[a person approves, while nobody runs]", end="")
                        worker = start(place)
                    case _:
                        pass
            await runs.follow("order-17").collect()  # until its end is recorded, too
        finally:
            worker.terminate()
            worker.wait()
        status = await runs.status("order-17")
        assert status is not None
        print(f"\n\n{status.state}: {status.usage.output_tokens} output tokens over three processes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:{Path(folder) / 'runs.db'}"))
