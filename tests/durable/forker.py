"""A program that forks a process for each line it reads, so that the package is imported once.

A line is JSON: where the runs are, what to do, and at which place the process kills or stops itself. It
answers each with a pid, and the end of each with how many places it passed and what became of the run. With
`act` it does not work on the run, but decides, sends or stops. With
`clock_s` the wall clock of the process is wrong by so much; with `forever` it works until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
import traceback
from typing import Any

from llmstream.addresses import is_postgres
from llmstream.durable import Runs
from llmstream.durable.postgres import PostgresRunStore
from llmstream.durable.sqlite import SQLiteRunStore
from llmstream.durable.store import RunStore
from llmstream.errors import LLMStreamError
from llmstream.log import SQLiteStore, open_logs
from tests.durable.clerk import MESSAGE, PROMPT, Effects, clerk
from tests.durable.programs import PROMPT as PROGRAM
from tests.durable.programs import agents_of


class Places:
    """Counts the places that a process passes; at one of them it is killed, at another one stopped."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.count = 0
        self._kill_at, self._stop_at = job.get("kill_at"), job.get("stop_at")

    def __call__(self, place: str) -> None:
        number, self.count = self.count, self.count + 1
        if number == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self._stop_at:
            os.kill(os.getpid(), signal.SIGSTOP)


def watched(kind: type[RunStore], at: Places) -> type[RunStore]:
    """A store that passes a place before and after each of its writes."""

    def passing(name: str) -> Any:
        write = getattr(kind, name)

        async def passed(self: Any, *arguments: Any, **options: Any) -> Any:
            at(f"before {name} {arguments}")
            found = await write(self, *arguments, **options)
            at(f"after {name} {arguments}")
            return found

        return passed

    names = ("begin", "done", "leave", "give", "send", "request_stop")
    return type("Watched", (kind,), {name: passing(name) for name in names})


def stores_of(address: str, at: Places, clock_s: float) -> tuple[RunStore, str | SQLiteStore]:
    """Of the runs, and of their logs."""
    if is_postgres(address):
        there: Any = watched(PostgresRunStore, at)
        return there(address), address
    kind: Any = watched(SQLiteRunStore, at)
    path = address.removeprefix("sqlite:")

    def clock() -> float:
        return time.time() + clock_s

    return kind(path, synchronous="normal", clock=clock), SQLiteStore(path, clock=clock)


async def work(job: dict[str, Any], at: Places) -> str:
    lease_s = job["lease_s"]
    store, where = stores_of(job["address"], at, job.get("clock_s", 0.0))
    logs = open_logs(where, lease_s=lease_s, keep_s=86_400)
    async with logs, Runs(store, logs=logs, lease_s=lease_s) as runs:
        if "seeds" in job:
            return await roam(runs, job)
        agent = clerk(Effects(job["effects"]), at=at, **job.get("agent", {}))
        try:
            if "act" in job:
                return await act(runs, job)
            if "prompt" in job:
                run = runs.stream(agent, job["run"], PROMPT)
                async for _ in run:
                    pass
            else:
                await runs.resume({"clerk": agent}, once=not job.get("forever"))
            info = await runs.status(job["run"])
            return info.state if info is not None else "none"
        except LLMStreamError as error:
            return error.code


class Differences(logging.Filter):
    """Notes that a conversation was another one in an earlier process."""

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects = effects

    def filter(self, record: logging.LogRecord) -> bool:
        if "differs" in record.getMessage():
            self._effects.add(f"differs {record.getMessage()}")
        return True


async def roam(runs: Runs, job: dict[str, Any]) -> str:
    """Works on the runs of random agents: on one until it ends or waits, or on all for some seconds."""
    effects = Effects(job["effects"])
    agents = agents_of(job["seeds"], effects, newer=job["newer"])
    logging.getLogger("llmstream.durable").addFilter(Differences(effects))
    if "reads" in job:
        try:
            async for _ in runs.stream(agents[job["reads"]], job["run"], PROGRAM, after=job["after"]):
                pass
        except LLMStreamError as error:
            return error.code
        return "read"
    try:
        await asyncio.wait_for(runs.resume(agents), job["seconds"])
    except TimeoutError:
        pass
    return "left"


async def act(runs: Runs, job: dict[str, Any]) -> str:
    """Decides about what waits, sends a message, or stops the run, from a process that does not have it."""
    if job["act"] == "stop":
        await runs.stop(job["run"])
    elif job["act"] == "send":
        await runs.send(job["run"], MESSAGE)
    else:
        info = await runs.status(job["run"])
        assert info is not None
        await runs.decide(job["run"], {call.approval_id: True for call in info.pending})
    return "acted"


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            sys.stdin = open(os.devnull)
            at = Places(job)
            try:
                end = asyncio.run(work(job, at))
            except BaseException:
                end = traceback.format_exc()
            said = {"name": job["name"], "end": end, "places": at.count}
            os.write(1, json.dumps(said).encode() + b"\n")
            os._exit(0)
        os.write(1, json.dumps({"name": job["name"], "pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()
