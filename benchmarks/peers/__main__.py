"""`python -m benchmarks.peers PEER ...`: CPU an event of other clients, beside floor and llmstream.

The packages of the peer have to be installed; `scripts/bench_peers` does that, each in an
environment of its own. A peer whose text is another than the floor's is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import pkgutil
import statistics
import time
import warnings
from importlib import metadata
from typing import Any

import aiohttp

from benchmarks import peers, server
from benchmarks.cpu import MODES, readers
from benchmarks.imports import statement_ms
from benchmarks.installed import footprint
from benchmarks.peers.report import Peer, report

PEERS = sorted(
    module.name
    for module in pkgutil.iter_modules(peers.__path__)
    if module.name not in ("__main__", "report")
)


async def measure(peer: Any, base: str, mode: str, count: int, rounds: int) -> dict[str, float]:
    """Median microseconds of CPU an event: the floor, llmstream with accumulation, the peer."""
    url = f"{base}/{peer.FAMILY}/{count}/{mode}"
    taken: dict[str, list[float]] = {}
    async with aiohttp.ClientSession() as session, peer.reader(url) as read_peer:
        ours = readers(peer.FAMILY, url, session)
        ways = {"floor": ours["floor"], "message": ours["message"], "peer": read_peer}
        for number in range(rounds + 1):
            texts = set()
            for name, read in ways.items():
                started = time.process_time()
                texts.add(await read())
                if number:  # the first round warms up
                    taken.setdefault(name, []).append((time.process_time() - started) / count * 1e6)
            if len(texts) != 1:
                raise SystemExit("the peer did not see the same text")
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Prints a line for each peer and size of writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("peers", nargs="+", choices=PEERS, metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="figures as JSON, one line each")
    args = parser.parse_args()
    for name in args.peers:
        peer = importlib.import_module(f"benchmarks.peers.{name}")
        with server.running() as base, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            who, weight = described(name, peer)
            for mode in MODES:
                found = asyncio.run(measure(peer, base, mode, args.events, args.rounds))
                report(who, mode, found, args.json, **weight)
            if not args.json:
                print(
                    "  " + "  ".join(f"{key.replace('_', ' ')} {value:,.0f}" for key, value in weight.items())
                )


def described(name: str, peer: Any) -> tuple[Peer, dict[str, float]]:
    """Who it is; and what its installation and its import weigh."""
    package, _, extras = peer.PACKAGES[0].rstrip("]").partition("[")
    size = footprint(package, tuple(extras.split(",")) if extras else ())
    weight = {
        "distributions": float(size.distributions),
        "mb": size.mb,
        "import_ms": statement_ms(peer.IMPORT),
    }
    return Peer(name, f"{peer.PACKAGES[0]} {metadata.version(package)}", peer.FAMILY), weight


if __name__ == "__main__":
    main()
