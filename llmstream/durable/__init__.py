"""Durable runs: agents that survive their process, and continue in another one.

    async with Runs("sqlite:runs.db") as runs:
        run = runs.stream(agent, "order-4711", "Ship it.")    # the same id again continues it
        async for event in run:
            ...

    await runs.resume({"clerk": agent})                       # in each worker: takes up runs of the dead

`runs.py` is the interface; `worker.py` produces the runs of a process, `store.py` is the interface of a
database, `store_steps.py` the port `Steps` over one, and `durable_run.py` a run for its reader.
"""

from __future__ import annotations

from llmstream.agent.durable_steps import Steps, SubAgentSteps
from llmstream.durable.durable_run import DurableRun, RunInfo
from llmstream.durable.runs import Runs
from llmstream.durable.store import RunStore
from llmstream.errors import Interrupted, Lost

__all__ = ["DurableRun", "Interrupted", "Lost", "RunInfo", "RunStore", "Runs", "Steps", "SubAgentSteps"]
