"""`python -m benchmarks [SECTION ...]`: llmstream beside loops written by hand, in one run.

Sections: cpu, curves, imports, concurrency, memory; by default all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator

from benchmarks import server
from benchmarks.concurrency import memory_kib, throughput
from benchmarks.cpu import MODES, measure
from benchmarks.curves import CURVES, LENGTHS, MILLION
from benchmarks.floor import FLOORS
from benchmarks.imports import import_ms

Figure = dict[str, object]
"""One line of the output: its section, what was measured, and the figures."""


def cpu(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Microseconds of CPU an event."""
    events, rounds = (5_000, 3) if args.quick else (args.events, args.rounds)
    for family in FLOORS:
        for mode in MODES:
            found = asyncio.run(measure(family, mode, base, events, rounds))
            yield {"dialect": family, "writes": mode, "us_per_event": found, "ratio": ratios(found, "floor")}


def curves(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Nanoseconds a fragment at growing lengths, and of the longest over the shortest."""
    for name, curve in CURVES.items():
        lengths = LENGTHS if args.quick or name != "accumulation" else (*LENGTHS, MILLION)
        found = {str(length): curve(length) for length in lengths}
        straight = {"longest": found[str(lengths[-1])] / found[str(lengths[0])]}
        yield {"curve": name, "ns_per_fragment": found, "ratio": straight}


def imports(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Milliseconds of the import."""
    found = import_ms(3 if args.quick else 15)
    yield {"ms": found, "ratio": ratios(found, "base")}


def concurrency(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Events a second with many streams, and the first event's delay."""
    for streams in (1, 10, 100):
        events = (5_000 if args.quick else 40_000) // streams
        found = asyncio.run(throughput(base, streams, events))
        yield {
            "streams": streams,
            "events_per_s": {name: value.events_per_s for name, value in found.items()},
            "first_ms": {name: value.first_ms for name, value in found.items()},
            "ratio": {"wall": found["floor"].events_per_s / found["stream"].events_per_s},
        }


def memory(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """KiB an open stream."""
    found = asyncio.run(memory_kib(base, 20 if args.quick else 200))
    yield {"kib_per_stream": found, "ratio": ratios(found, "floor")}


SECTIONS: dict[str, Callable[[argparse.Namespace, str], Iterator[Figure]]] = {
    "cpu": cpu,
    "curves": curves,
    "imports": imports,
    "concurrency": concurrency,
    "memory": memory,
}


def ratios(found: dict[str, float], over: str) -> dict[str, float]:
    """Each figure over the one named."""
    return {name: value / found[over] for name, value in found.items() if name != over}


def line(section: str, figure: Figure) -> str:
    """A figure for people."""
    told = []
    for name, value in figure.items():
        if isinstance(value, dict):
            suffix = "x" if name == "ratio" else ""
            shown = "  ".join(f"{key} {number:,.2f}{suffix}" for key, number in value.items())
            told.append(f"{name.replace('_', ' ')}: {shown}")
        else:
            told.append(f"{value:<16}" if isinstance(value, str) else f"{value:>4} {name}")
    return f"{section:<12} " + "  ".join(told)


def main() -> None:
    """Runs the sections and prints a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--events", type=int, default=20_000, help="content events in one stream (cpu)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of which the median is taken (cpu)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, some seconds in all")
    parser.add_argument("--json", action="store_true", help="figures as JSON, one line each")
    args = parser.parse_args()
    unknown = [name for name in args.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    with server.running() as base:
        for section in args.sections or SECTIONS:
            for figure in SECTIONS[section](args, base):
                shown = json.dumps({"section": section, **figure}) if args.json else line(section, figure)
                print(shown, flush=True)


if __name__ == "__main__":
    main()
