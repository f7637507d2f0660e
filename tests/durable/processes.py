"""Processes for the tests that work on durable runs, and are killed, stopped and woken."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LEASE_S = 0.5
LIMIT_S = 60.0


class Process:
    """A forked process.

    end: what became of it, and how many places it passed; never set if it is killed
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pid: asyncio.Future[int] = loop.create_future()
        self.end: asyncio.Future[tuple[str, int]] = loop.create_future()

    async def state(self) -> tuple[str, int]:
        """How it ended by itself."""
        return await asyncio.wait_for(asyncio.shield(self.end), LIMIT_S)

    async def died(self) -> None:
        """Waits until it was killed, or ended by itself."""
        pid = await self.pid
        async with asyncio.timeout(LIMIT_S):
            while not self.end.done() and _state(pid) not in ("Z", ""):
                await asyncio.sleep(0.005)

    async def stopped(self) -> bool:
        """Waits until it has stopped itself; False if it ended before."""
        pid = await self.pid
        async with asyncio.timeout(LIMIT_S):
            while not self.end.done():
                if _state(pid) == "T":
                    return True
                await asyncio.sleep(0.005)
        return False

    async def kill(self) -> None:
        """Kills it, wherever it is."""
        if not self.end.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(await self.pid, signal.SIGKILL)
        await self.died()

    def wake(self) -> None:
        os.kill(self.pid.result(), signal.SIGCONT)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Processes:
    """Forks processes from one that has the package imported."""

    def __init__(self, forker: asyncio.subprocess.Process) -> None:
        self._forker = forker
        self._known: dict[str, Process] = {}
        self._numbers = itertools.count()
        self._reading = asyncio.ensure_future(self._read())

    async def start(self, **job: Any) -> Process:
        """Starts one; see `forker`."""
        name = str(next(self._numbers))
        found = self._known[name] = Process()
        assert self._forker.stdin is not None
        line = json.dumps({"name": name, "lease_s": LEASE_S, "run": "order", **job})
        self._forker.stdin.write(line.encode() + b"\n")
        await found.pid
        return found

    async def _read(self) -> None:
        assert self._forker.stdout is not None
        async for line in self._forker.stdout:
            said = json.loads(line)
            process = self._known[said["name"]]
            if "pid" in said:
                process.pid.set_result(said["pid"])
            else:
                process.end.set_result((said["end"], said["places"]))
        for process in self._known.values():
            if not process.pid.done():
                process.pid.set_exception(RuntimeError("the forking process ended; see its stderr"))

    async def aclose(self) -> None:
        assert self._forker.stdin is not None
        self._forker.stdin.close()
        for process in self._known.values():
            if process.pid.done() and not process.end.done():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid.result(), signal.SIGKILL)
        await self._forker.wait()
        await self._reading


@asynccontextmanager
async def forked() -> AsyncIterator[Processes]:
    """Processes, all of which are dead at the end of the block."""
    forker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.durable.forker"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    found = Processes(forker)
    try:
        yield found
    finally:
        await found.aclose()
