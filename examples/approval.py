"""Human approval of a tool call: the run is saved, and resumed in another process.

The first process stops when a decision is needed; the second has the person's decision. A digest
binds the decision to the call: a file that was altered in between is refused.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from pathlib import Path

from _arguments import model

import llmstream as ls

KEY = b"from your secrets, the same in both processes"


@ls.tool(needs_approval=lambda arguments: arguments["euros"] > 0)
async def refund(order: str, euros: int) -> str:
    """Pay money back.

    Args:
        order: the number of the order
        euros: how much
    """
    return f"{euros} euros for {order} are on their way"


def clerk(spec: str) -> ls.Agent:
    return ls.Agent(spec, name="clerk", tools=[refund], approval_key=KEY)


async def ask(spec: str, path: Path) -> None:
    async with clerk(spec).stream("Refund order 17.") as run:
        async for event in run:
            if isinstance(event, ls.ToolApprovalRequest):
                print(f"process 1: a decision is due, {event.approval_id.partition('_')[0]}")
    assert run.suspended is not None
    run.suspended.save(path)
    print("process 1: saved, and over")


async def decide(spec: str, path: Path) -> None:
    suspension = ls.Suspension.take(path)  # of several processes, one gets it
    decisions: dict[str, ls.Approve | ls.Deny | bool] = {}
    for pending in suspension.pending:
        print(f"process 2: may I? {pending}")
        decisions[pending.approval_id] = ls.Approve()
    async with clerk(spec).resume(suspension, decisions) as run:
        message = await run.collect()
    print(f"process 2: {message.text}")
    print([f"{m.role}" for m in run.messages()])


def in_another_process(spec: str, path: Path) -> None:
    asyncio.run(decide(spec, path))


if __name__ == "__main__":
    spec = model(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "waiting.json"
        asyncio.run(ask(spec, path))
        other = multiprocessing.get_context("spawn").Process(target=in_another_process, args=(spec, path))
        other.start()
        other.join()
        assert os.listdir(folder) == []
