"""The server, in its own process: says where it listens, and at each line how many are connected."""

from __future__ import annotations

import asyncio
import json
import sys

from llmstream.testing import FaultServer
from soak.cases import Answers
from soak.held import allow_descriptors


async def main() -> None:
    """Serves until its standard input ends."""
    allow_descriptors()
    loop = asyncio.get_running_loop()
    async with FaultServer(Answers().script) as server:
        print(json.dumps({"url": server.url}), flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps({"open": server.open, "connections": server.connections}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
