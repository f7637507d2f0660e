"""A worker: takes up every order that no living worker has. Start as many as you like, on any machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import threading
import time

from clerk import Bank, clerk

from llmstream.durable import Runs


def die_within(most_s: float) -> None:
    """Kills this process after a while, for fleets in containers, where nobody else does it."""
    time.sleep(random.uniform(0.2 * most_s, most_s))
    os.kill(os.getpid(), signal.SIGKILL)


async def main(given: argparse.Namespace) -> None:
    bank = Bank(given.postgres)
    owner = f"{given.name}:{os.getpid()}"
    async with (
        clerk(given.vendor, given.redis, bank) as agent,
        # A short lease, for the show: what a dead worker had is taken over after two seconds.
        Runs(given.postgres, lease_s=2.0, owner=owner) as runs,
    ):
        await runs.resume({"clerk": agent}, limit=3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default=socket.gethostname())
    parser.add_argument("--postgres", required=True, metavar="ADDRESS")
    parser.add_argument("--redis", required=True, metavar="ADDRESS")
    parser.add_argument("--vendor", required=True, metavar="ADDRESS")
    parser.add_argument("--dies-within", type=float, metavar="SECONDS", help="it kills itself before that")
    options = parser.parse_args()
    if options.dies_within:
        threading.Thread(target=die_within, args=[options.dies_within], daemon=True).start()
    asyncio.run(main(options))
