"""A program that forks a producer for each line it reads, so that the package is imported once.

A line is JSON: the address, the id of the run, the length of the answer, what to do when, the lease.
It answers each with the pid of the producer, and the end of each with what became of the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator

import llmstream as ls
from tests.log.sources import answer


async def produce(job: dict) -> str:
    async with ls.open_logs(job["address"], lease_s=job["lease_s"]) as logs:
        try:
            options = {"take_over": job.get("take_over"), "takeover_s": job.get("takeover_s", 0.0)}
            live = await logs.start(job["run"], paced(job), **options)
            return await live.wait()
        except ls.errors.LogError as error:
            return error.code


async def paced(job: dict) -> AsyncIterator[ls.Event]:
    """The answer, an event each time that a commit may come before or after it."""
    for number, event in enumerate(answer(job["words"])):
        if number == job.get("kill_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if number == job.get("sleep_at"):
            os.kill(os.getpid(), signal.SIGSTOP)
        yield event
        await asyncio.sleep(job.get("pause_s", (0.0, 0.004, 0.012)[number % 3]))
    if job.get("kill_at") == len(answer(job["words"])):  # the finish is committed, the end is not
        await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            sys.stdin = open(os.devnull)
            found = asyncio.run(produce(job))
            os.write(1, json.dumps({"run": job["run"], "end": found}).encode() + b"\n")
            os._exit(0)
        os.write(1, json.dumps({"run": job["run"], "pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()
