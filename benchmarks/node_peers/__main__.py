"""`python -m benchmarks.node_peers`: CPU an event of JavaScript clients, beside floor and llmstream.

`scripts/bench_peers node` installs their packages first. Each client reads in a process of
Node's; a text other than the floor's is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
from pathlib import Path

import aiohttp

from benchmarks import server
from benchmarks.cpu import MODES, measure, readers
from benchmarks.peers.report import Peer, report

CLIENTS = {
    "openai": "openai-chat",
    "anthropic": "anthropic",
    "ai-model": "openai-chat",
    "ai-stream-text": "openai-chat",
}
"""The clients of clients.mjs, and the wire each speaks."""

SCRIPT = Path(__file__).with_name("clients.mjs")


def client(name: str, packages: Path, url: str, events: int, rounds: int) -> dict[str, object]:
    """What Node says of one client: us_per_event, text, package, version."""
    local = packages / SCRIPT.name  # imports are looked for where the script lies
    local.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    command = ["node", local.name, name, url, str(events), str(rounds)]
    told = subprocess.run(command, cwd=packages, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, object] = json.loads(told)
    return found


async def floor_text(family: str, url: str) -> str:
    """What there is to read."""
    async with aiohttp.ClientSession() as session:
        return await readers(family, url, session)["floor"]()


def main() -> None:
    """Prints a line for each client and size of writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.node_peers", description=__doc__)
    parser.add_argument("packages", type=Path, help="where node_modules lies")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="figures as JSON, one line each")
    args = parser.parse_args()
    with server.running() as base:
        for name, family in CLIENTS.items():
            for writes in MODES:
                url = f"{base}/{family}/{args.events}/{writes}"
                told = client(name, args.packages, url, args.events, args.rounds)
                if told["text"] != asyncio.run(floor_text(family, url)):
                    raise SystemExit(f"{name} did not see the same text")
                ours = asyncio.run(measure(family, writes, base, args.events, args.rounds))
                found = {"floor": ours["floor"], "message": ours["message"]}
                figure = told["us_per_event"]
                assert isinstance(figure, (int, float))
                found["peer"] = float(figure)
                peer = Peer(f"{name}, Node", f"{told['package']} {told['version']}", family)
                report(peer, writes, found, args.json)


if __name__ == "__main__":
    main()
