"""What is measured, section by section: each gives figures, one a line of the output."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.agents import OWN, PEERS
from benchmarks.agents import figures as agent_figures
from benchmarks.blocking import first_call_ms, longest_ms
from benchmarks.concurrency import throughput
from benchmarks.cpu import MODES, PROVIDERS, measure
from benchmarks.curves import CURVES, MILLION
from benchmarks.event_log import WORK, cores, latency_ms, stores
from benchmarks.first_event import first_ms, first_request_ms
from benchmarks.floor import FLOORS
from benchmarks.gateway import CLIENTS, figures, per_call
from benchmarks.imports import import_ms
from benchmarks.installed import DISTRIBUTION, footprint
from benchmarks.latency import between_ms
from benchmarks.long_runs import RUNS, in_process, over_http, step_ms
from benchmarks.loops import rows
from benchmarks.mapping import map_figures
from benchmarks.memory import kib_per_stream
from benchmarks.serving import TOGETHER, us_per_served
from benchmarks.store import growth_ms, turn_ms

Figure = dict[str, object]
"""What was measured (words and counts), the figures by reader, and ratios over the floor."""


def cpu(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Microseconds of CPU an event."""
    events, rounds = (5_000, 3) if args.quick else (args.events, args.rounds)
    for family in FLOORS:
        for writes in MODES:
            found = asyncio.run(measure(family, writes, base, events, rounds))
            yield {"dialect": family, "writes": writes, "us_per_event": found, "ratio": ratios(found)}


def latency(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Milliseconds to the first event of a call, and from the server's write to the reader."""
    calls = 100 if args.quick else 1_000
    for name, pause_s in (("call after call", 0.0), ("10 ms after the last", 0.01)):
        found = asyncio.run(first_ms(base, calls, pause_s))
        yield {"delay": f"first event, {name}", "ms": flat(found), "ratio": ratios(flat(found, "p50"))}
    first = first_request_ms(base, 3 if args.quick else 15)
    yield {"delay": "first event of a process", "ms": first, "ratio": ratios(first)}
    for streams in (10, 100):
        found = asyncio.run(between_ms(base, streams, 20 if args.quick else 100))
        name = f"paced, {streams} streams"
        yield {"delay": name, "ms": flat(found), "ratio": ratios(flat(found, "p99"))}


# Events of each of a thousand streams: so many that connecting weighs little.
_LENGTHS = {"blocks": 4_000, "events": 1_000}


def concurrency(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Events a second with many streams, and the first event's delay."""
    for writes in MODES:
        for streams in (1, 10, 100, 1_000):
            events = max(100_000 // streams, _LENGTHS[writes]) // (10 if args.quick else 1)
            found = asyncio.run(throughput(base, streams, events, writes))
            rates = {name: value.events_per_s for name, value in found.items()}
            yield {
                "streams": streams,
                "writes": writes,
                "events_per_s": rates,
                "first_ms": {name: value.first_ms for name, value in found.items()},
                "of_single": {name: value.of_single for name, value in found.items()},
                "ratio": {"wall": rates["floor"] / rates["stream"]},
            }


def memory(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """KiB an open stream."""
    for state, writes in {"idle": "idle", "buffers full": "events"}.items():
        streams = 1_000 if writes == "idle" and not args.quick else 200
        found = kib_per_stream(base, streams, writes)
        yield {"state": state, "streams": streams, "kib_per_stream": found, "ratio": ratios(found)}


def blocking(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """The longest wait of other tasks while a body of 10 MB is read, and in the first call of a process."""
    found = asyncio.run(longest_ms(base))
    yield {"work": "a body of 10 MB", "longest_wait_ms": found, "ratio": ratios(found)}
    found = first_call_ms(base, 3 if args.quick else 9)
    yield {"work": "the first call", "longest_wait_ms": found, "ratio": ratios(found)}


def curves(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Nanoseconds a fragment at growing lengths, and of the longest over the shortest."""
    for name, (curve, lengths) in CURVES.items():
        found = {str(n): curve(n) for n in lengths if n < MILLION or not args.quick}
        first, *_, last = found.values()
        yield {"curve": name, "ns_per_fragment": found, "ratio": {"longest": last / first}}


def long_runs(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Milliseconds of CPU an agent's step, early and late in a run of 300 steps."""
    runs = [(name, in_process, tool) for name, tool in RUNS.items()]
    runs += [(f"over {family}", partial(over_http, family, base), RUNS["tool"]) for family in PROVIDERS]
    for name, model, tool in runs:
        found = asyncio.run(step_ms(model, tool, 1 if args.quick else 5))
        yield {"run": name, "ms_per_step": found, "ratio": {"late": found["step 300"] / found["step 30"]}}


def agents(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Agents of ten steps with five calls each, at once: CPU, memory, and the longest hold of the loop."""
    # Those of others take minutes for a thousand.
    few, many = (20, 50) if args.quick else (200, 1_000)
    for number, names in {few: (*OWN, *PEERS), many: OWN}.items():
        for name in names:
            found = agent_figures(name, base, number)
            if found is None:
                print(f"agents: {name} is not installed; see scripts/bench_peers agents", file=sys.stderr)
            else:
                yield {"agents": name, "at once": number, **found}


def maps(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Microseconds of CPU a row of `ls.map`; then peak memory as the rows grow, where it has to stay flat."""
    rows = 1_000 if args.quick else 10_000
    found = map_figures(base, rows, ("ask", "map", "again"))
    us = {name: value["us_per_row"] for name, value in found.items()}
    yield {"rows": rows, "us_per_row": us, "peak_mb": peaks(found), "ratio": ratios(us)}
    if not args.quick:
        yield {"rows": 20 * rows, "peak_mb": peaks(map_figures(base, 20 * rows, ("map", "again")))}


def peaks(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Of each reader the peak of resident memory."""
    return {name: value["peak_mb"] for name, value in found.items()}


def event_log(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Microseconds of CPU an event in an event log, and milliseconds to its reader."""
    with stores() as addresses:
        for store, address in addresses.items():
            for name, work in WORK.items():
                found = work(store, address, args.quick)
                yield {"work": name, "store": store, "us_per_event": found, "ratio": ratios(found)}
            found = asyncio.run(latency_ms(address, 50 if args.quick else 500))
            yield {"work": "to a reader", "store": store, "ms": found}
            found = asyncio.run(cores(address, 1.0 if args.quick else 5.0))
            yield {"work": "1,000 runs, 50 events/s", "store": store, "cores": found}


def store(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Milliseconds of what a store of conversations does as it grows; a turn, beside simonw/llm's."""
    sizes = (1_000,) if args.quick else (1_000, 10_000, 100_000)
    counts = [count for count in sizes if count <= args.conversations] or [args.conversations]
    found = growth_ms(counts, 20 if args.quick else 100, args.postgres)
    for (work, name), ms in found.items():
        yield {"work": work, "store": name, "ms": {f"{count:,}": value for count, value in ms.items()}}
    for name, ms in turn_ms(100 if args.quick else 2_000).items():
        yield {"work": "a turn", "store": name, "ms": {"empty": ms}}


def imports(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Milliseconds of the import."""
    found = import_ms(3 if args.quick else 15)
    yield {"ms": found, "ratio": ratios(found)}


def installed(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Distributions and megabytes of an installation without extras."""
    found = footprint(DISTRIBUTION)
    yield {"distributions": found.distributions, "size": {"mb": found.mb}}


def event_loops(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """CPU of chat completions on the event loops there are, here and in other Pythons, and what to use."""
    events, rounds = (5_000, 3) if args.quick else (args.events, args.rounds)
    yield from rows(args.python, base, events, rounds)


def serving(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Microseconds of the server's CPU an event that a web server sends; nothing without uvicorn."""
    events, rounds = (5_000, 3) if args.quick else (args.events, args.rounds)
    for writes in TOGETHER:
        if found := us_per_served(writes, events, rounds):
            yield {"writes": writes, "us_per_event": found, "ratio": ratios(found)}


def gateway(args: argparse.Namespace, base: str) -> Iterator[Figure]:
    """Microseconds of a gateway's CPU an event and a call, beside a loop that copies bytes; on Linux."""
    if not sys.platform.startswith("linux"):
        return
    for writes in ("events", "blocks"):
        for clients in CLIENTS:
            found = asyncio.run(figures(clients, writes, 1 if args.quick else 3))
            row = {"clients": str(clients), "writes": writes}
            yield {**row, **found, "ratio": ratios(found["us_per_event"])}
    found = asyncio.run(per_call(50 if args.quick else 300))
    yield {"clients": "a call of one event", **found, "ratio": ratios(found["us_per_call"])}


SECTIONS: dict[str, Callable[[argparse.Namespace, str], Iterator[Figure]]] = {
    "latency": latency,  # first: what a process has read before changes what its memory costs
    "cpu": cpu,
    "concurrency": concurrency,
    "memory": memory,
    "blocking": blocking,
    "curves": curves,
    "long_runs": long_runs,
    "agents": agents,
    "map": maps,
    "event_log": event_log,
    "store": store,
    "imports": imports,
    "installed": installed,
    "loops": event_loops,
    "serving": serving,
    "gateway": gateway,
}


def ratios(found: dict[str, float]) -> dict[str, float]:
    """Each figure over the first, which is the floor's."""
    (_, floor), *others = found.items()
    return {name: value / floor for name, value in others}


def flat(found: dict[str, dict[str, float]], only: str = "") -> dict[str, float]:
    """Percentiles by reader as one table: "stream p99"."""
    return {
        f"{reader} {name}": value
        for reader, percentiles in found.items()
        for name, value in percentiles.items()
        if name.startswith(only)
    }
