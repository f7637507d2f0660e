"""A worker: takes up every run that no living process has. Start as many as you like."""

from __future__ import annotations

import asyncio
import sys

from agent import clerk

from llmstream.durable import Runs


async def main(place: str) -> None:
    async with clerk() as agent, Runs(place, lease_s=1.0) as runs:  # a short lease, for the show
        await runs.resume({"clerk": agent})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
