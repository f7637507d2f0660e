"""Shows where the CPU time of a call goes: the share of each layer, as a table and a flame graph.

A process calls the replay server of the benchmarks again and again, and py-spy samples its Python and
native stacks. Shares hardly depend on the load of the machine, because only CPU time is sampled; a
share of 5 % is good to about 1 % in the usual five seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import aiohttp

from benchmarks import server
from benchmarks.cpu import MODES, PROVIDERS, readers
from benchmarks.flame import flame_graph
from benchmarks.layers import LAYERS, Sample, samples, shares

READERS = ("floor", "events", "stream", "message", "agent")
MEASURED = "measured"
"""The function that py-spy's samples are taken below: not imports, not the first calls."""
# A prime, so that no period of the program falls in step with it.
_RATE_HZ = 499
_WARM_UP = 30


class Calls(NamedTuple):
    """What the sampled process did."""

    calls: int
    us_per_call: float


def sampled(args: argparse.Namespace) -> None:
    """In the sampled process: calls until it has used so many seconds of CPU, and prints `Calls` as JSON."""
    with asyncio.Runner() as runner:
        session = aiohttp.ClientSession(loop=runner.get_loop())
        read = readers(args.wire, args.url, session)[args.reader]

        async def calls(enough_s: float, at_least: int) -> Calls:
            number, started = 0, time.process_time()
            while number < at_least or time.process_time() - started < enough_s:
                await read()
                number += 1
            return Calls(number, (time.process_time() - started) / number * 1e6)

        def measured() -> Calls:
            return runner.run(calls(args.seconds, 1))

        runner.run(calls(0.0, _WARM_UP))
        print(json.dumps(measured()))
        runner.run(session.close())


def profiled(args: argparse.Namespace) -> tuple[Calls, list[Sample]]:
    """Samples a process of its own; exits with what is missing."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        sys.exit("py-spy is not installed: pip install -e '.[dev]'")
    with server.running() as base, tempfile.TemporaryDirectory() as folder:
        kind = "tools-" if args.kind == "tools" else ""
        url = f"{base}/{args.wire}/{args.events}/{kind}{args.writes}"
        file = Path(folder, "stacks")
        # Where py-spy has no native stacks, the kernel and msgspec count for the Python code that calls them.
        native = ["--native"] if sys.platform == "linux" else []
        command = [spy, "record", *native, "--rate", str(_RATE_HZ), "--format", "raw", "--output", str(file)]
        command += ["--", sys.executable, "-m", "benchmarks.profile", "--sampled", url]
        command += ["--wire", args.wire, "--reader", args.reader, "--seconds", str(args.seconds)]
        # On some virtual machines py-spy takes 30 ms to read the stacks once.
        print(f"sampling {args.seconds:g} s of CPU time; this may take minutes", file=sys.stderr)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not file.exists():
            sys.exit(f"py-spy could not sample (in a container it needs SYS_PTRACE):\n{done.stderr.strip()}")
        calls = next(line for line in done.stdout.splitlines() if line.startswith("["))
        with file.open(encoding="utf-8") as lines:
            return Calls(*json.loads(calls)), list(samples(lines, MEASURED))


def table(calls: Calls, found: dict[str, float], events: int) -> str:
    """The layers that took something, with microseconds a call."""
    rows = [f"{'layer':<9} {'share':>6} {'us a call':>10}"]
    for layer, share in found.items():
        if share:
            rows.append(f"{layer:<9} {share:>6.1%} {share * calls.us_per_call:>10,.0f}   {LAYERS[layer]}")
    each = f"{calls.us_per_call / events:.2f} us an event"
    rows.append(f"{'all':<9} {1:>6.1%} {calls.us_per_call:>10,.0f}   {calls.calls:,} calls; {each}")
    return "\n".join(rows)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  scripts/profile --events 200                      a short answer of chat completions\n"
        "  scripts/profile --wire gemini --svg gemini.svg    its flame graph, for any browser\n"
        "  scripts/profile --kind tools --reader message     tool calls, folded to a message\n"
        "  scripts/profile --reader floor                    the loop written by hand, to compare\n",
    )
    parser.add_argument("--wire", choices=PROVIDERS, default="openai-chat", help="whose bytes (openai-chat)")
    parser.add_argument("--kind", choices=("text", "tools"), default="text", help="what is answered (text)")
    parser.add_argument(
        "--writes",
        choices=MODES,
        default="blocks",
        help="blocks of 16 KiB, or a write for each event (blocks)",
    )
    parser.add_argument("--events", type=int, default=2_000, metavar="N", help="events of an answer (2000)")
    parser.add_argument(
        "--reader",
        choices=READERS,
        default="stream",
        help="Model.events, a stream, its message, an agent, or the floor (stream)",
    )
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="CPU time to sample (5)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a flame graph")
    parser.add_argument("--json", action="store_true", help="shares and microseconds as one JSON object")
    parser.add_argument("--sampled", dest="url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.events < 1 or args.seconds <= 0:
        parser.error("--events and --seconds must be positive")
    if args.reader == "floor" and args.kind == "tools":
        parser.error("the floor reads text only")
    return args


def main() -> None:
    """Samples, and prints."""
    args = arguments()
    if args.url is not None:
        sampled(args)
        return
    calls, found = profiled(args)
    parts = shares(found)
    title = f"{args.reader}: {args.wire}, {args.events:,} events of {args.kind} in {args.writes}"
    if args.json:
        print(json.dumps({"title": title, **calls._asdict(), "shares": parts}))
    else:
        print(f"{title}\n{table(calls, parts, args.events)}")
    if args.svg is not None:
        try:
            args.svg.write_text(flame_graph(title, found), encoding="utf-8")
        except OSError as error:
            sys.exit(f"cannot write {args.svg}: {error.strerror}")


if __name__ == "__main__":
    main()
