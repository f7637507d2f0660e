"""Human approval of a sub-agent's call: the run above waits, is saved, and resumes within the sub-agent.

What was done does not run again: the sub-agent's first call, the responses of both models. The decision
is bound to the arguments that were shown, at any depth of agents.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from _arguments import SCRIPTS, model

import llmstream as ls

KEY = b"from your secrets, the same in both processes"


@ls.tool
async def balance(account: str) -> str:
    """Look an account up."""
    print(f"  looking up {account}", flush=True)
    return "900 euros"


@ls.tool(needs_approval=True)
async def transfer(account: str, euros: int) -> str:
    """Move money."""
    print(f"  moving {euros} euros to {account}", flush=True)
    return "done"


def assistant(clerk_spec: str, spec: str) -> ls.Agent:
    clerk = ls.Agent(clerk_spec, name="clerk", tools=[balance, transfer])
    return ls.Agent(
        spec, name="assistant", tools=[clerk.as_tool(description="Ask the bank's clerk.")], approval_key=KEY
    )


def simulated(turn: int) -> list[str]:
    """The two models from a turn on; with `--live`, real ones."""
    return [f"sim:{SCRIPTS / f'{name}_{turn}.json'}" for name in ("clerk", "assistant")]


async def ask(path: Path, specs: list[str]) -> None:
    run = assistant(*specs).stream("Pay my rent.")
    await run.collect()
    assert run.suspended is not None
    run.suspended.save(path)
    print("saved; it waits for", *run.suspended.pending)


async def decide(path: Path, specs: list[str]) -> None:
    suspension = ls.Suspension.take(path)
    decisions = {pending.approval_id: ls.Approve() for pending in suspension.pending}
    run = assistant(*specs).resume(suspension, decisions)
    print((await run.collect()).text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["decide"]:
        asyncio.run(decide(Path(sys.argv[2]), sys.argv[3:]))
    else:
        live = model(__doc__, "")
        first, second = ([live, live], [live, live]) if live else (simulated(1), simulated(2))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "waiting.json"
            asyncio.run(ask(path, first))
            print("another process:", flush=True)
            subprocess.run([sys.executable, __file__, "decide", path, *second], check=True)
