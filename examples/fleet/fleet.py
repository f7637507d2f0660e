"""Four workers, one of which is killed every few seconds, while all orders are shipped and paid for once.

Without --redis and --postgres it starts private servers from Debian's packages. With --workers 0 it starts no
workers, and shows what those on other machines do.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from board import Board
from clerk import Bank
from servers import postgres_server, redis_server
from vendor import PER_MINUTE, script

from llmstream.durable import Runs
from llmstream.testing import Simulator, VendorLimits

WORKER = Path(__file__).with_name("fleet_worker.py")
CITIES = ["Oslo", "Lima", "Rome", "Quito", "Hanoi"]


class Workers:
    """The processes."""

    def __init__(self, board: Board, arguments: list[str]) -> None:
        self.killed = 0
        self._board, self._arguments = board, arguments
        self._living = dict[str, subprocess.Popen[bytes]]()

    def start(self, name: str) -> None:
        """Starts a worker."""
        command = [sys.executable, str(WORKER), "--name", name, *self._arguments]
        self._living[name] = subprocess.Popen(command)
        owner = f"{name}:{self._living[name].pid}"
        self._board.living.add(owner)
        self._board.say(f"{owner} starts")

    def kill(self, name: str) -> None:
        """Ends a worker by SIGKILL: no cleanup of any kind."""
        worker = self._living.pop(name)
        worker.kill()
        worker.wait()
        owner = f"{name}:{worker.pid}"
        self._board.living.remove(owner)
        self._board.dead.add(owner)
        self.killed += 1
        self._board.say(f"{owner} is killed, with {', '.join(self._board.owned(owner)) or 'nothing'}")

    async def kill_some(self, every_s: float, most: int) -> None:
        """Kills one worker after the other, and starts another one in its place; a busy one first."""
        while not self._busy():  # noqa: ASYNC110  # they start
            await asyncio.sleep(0.1)
        while self.killed < most:
            await asyncio.sleep(every_s)
            name = random.choice((not self.killed and self._busy()) or list(self._living))
            self.kill(name)
            await asyncio.sleep(min(1.0, every_s / 2))
            self.start(name)

    def _busy(self) -> list[str]:
        return [name for name, found in self._living.items() if self._board.owned(f"{name}:{found.pid}")]

    def end(self) -> None:
        """Ends all workers."""
        for worker in self._living.values():
            worker.terminate()
        for worker in self._living.values():
            worker.wait()


async def main(given: argparse.Namespace, postgres: str, redis: str) -> bool:
    """Ships the orders; returns whether all is right in the end."""
    bank, orders = Bank(postgres), [f"order-{number}" for number in range(1, given.orders + 1)]
    await bank.prepare()
    limits = VendorLimits(requests_per_minute=PER_MINUTE)
    async with Simulator(script, limits=limits) as vendor, Runs(postgres, lease_s=2.0) as runs:
        for order, city in zip(orders, itertools.cycle(CITIES), strict=False):
            await runs.submit("clerk", order, f"Ship {order} to {city}.")
        board = Board(runs, orders)
        addresses = {"--postgres": postgres, "--redis": redis, "--vendor": vendor.url}
        workers = Workers(board, list(itertools.chain(*addresses.items())))
        for number in range(given.workers):
            workers.start(f"worker-{number + 1}")
        killing = asyncio.create_task(
            workers.kill_some(given.kill_every, given.kills if given.workers else 0)
        )
        try:
            await board.show()
        finally:
            killing.cancel()
            workers.end()
    if given.workers:
        print(f"\n{workers.killed} kills; the vendor answered {limits.admitted} and refused {limits.refused}")
    return report(board, await bank.payments())


def report(board: Board, payments: list[tuple[str, str]]) -> bool:
    """Prints what came of it; returns whether all is right."""
    done = [name for name, order in board.orders.items() if order.info and order.info.state == "done"]
    paid = Counter(order for _, order in payments if order in board.orders)
    calls = Counter(key for key, _ in payments)
    twice = [sum(count > 1 for count in counter.values()) for counter in (paid, calls)]
    right = len(done) == len(paid) == len(board.orders) and not any(twice)
    print("what the reader counted:", ", ".join(f"{what} {n}" for what, n in sorted(board.counts.items())))
    print(f"{len(done)} of {len(board.orders)} orders are done, {len(paid)} are paid")
    print(f"{twice[0]} orders were paid twice, {twice[1]} calls of pay ran twice")
    print("all is right" if right else "SOMETHING IS WRONG")
    return right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--kills", type=int, default=1_000_000, help="the most kills")
    parser.add_argument("--postgres", metavar="ADDRESS", help="such as postgresql://user:password@host/fleet")
    parser.add_argument("--redis", metavar="ADDRESS", help="such as redis://host:6379/0")
    options = parser.parse_args()
    with ExitStack() as servers:
        postgres_address = options.postgres or servers.enter_context(postgres_server())
        redis_address = options.redis or servers.enter_context(redis_server())
        everything_is_right = asyncio.run(main(options, postgres_address, redis_address))
    sys.exit(not everything_is_right)
