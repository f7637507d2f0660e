"""Compares the speed of today with the record; status 1 where something is worse.

By default the ratios against the floor of the same run, which hardly depend on the machine. The record
is the median of three runs. What is worse than it is measured again, up to three times, and its best
counts.

With --instructions, what valgrind counts in small programs: decoding, encoding, calls without a kernel,
an agent. Load makes no difference to it, so a change of two percent shows. It takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import server
from benchmarks.instructions import build, count, unavailable
from benchmarks.sections import SECTIONS

BASELINE = Path(__file__).with_name("baseline.json")
COUNTS = Path(__file__).with_name("instructions.json")
"""Instructions by build of Python and program: compilers differ by more than what is looked for."""
TOLERANCE, TOLERANCE_OF_COUNTS = 0.25, 0.02
GUARDED = ("cpu", "memory", "curves", "imports")
THEIRS = "values re-parsed by jiter"
"""Shown beside ours; how it changes is no concern of ours."""
TRIES = 3


def key_of(section: str, figure: dict[str, object], name: str) -> str:
    """How a ratio is called in the record, such as "cpu/anthropic/blocks/stream"."""
    words = [value for value in figure.values() if isinstance(value, str)]
    return "/".join([section, *words, name])


def measured(base: str, wanted: set[str] | None = None) -> dict[str, float]:
    """The ratios of every guarded section, or of those in which something is wanted."""
    args = argparse.Namespace(quick=False, events=10_000, rounds=5)
    found: dict[str, float] = {}
    for section in GUARDED:
        if wanted is not None and not any(key.startswith(section + "/") for key in wanted):
            continue
        for figure in SECTIONS[section](args, base):
            ratios = figure["ratio"]
            assert isinstance(ratios, dict)
            if THEIRS not in figure.values():
                found |= {key_of(section, figure, name): value for name, value in ratios.items()}
    return found


def worse(found: Mapping[str, float], recorded: Mapping[str, float], tolerance: float) -> set[str]:
    """The recorded figures that are exceeded by more than the tolerance, or are gone."""
    return {key for key, old in recorded.items() if found.get(key, float("inf")) > old * (1 + tolerance)}


def record(runs: list[dict[str, float]]) -> int:
    """Writes the median of each ratio as the new record."""
    found = {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}
    BASELINE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"recorded {len(found)} ratios in {BASELINE.name}")
    return 0


def counted(args: argparse.Namespace) -> int:
    """Compares instructions, or records them."""
    if why := unavailable():
        print(f"skipped: {why}")
        return 0
    every: dict[str, dict[str, int]] = json.loads(COUNTS.read_text(encoding="utf-8"))
    recorded = every.get(build(), {})
    if not (recorded or args.record):
        print(f"skipped: there is no record for {build()}; --instructions --record writes one")
        return 0
    found = count(args.only)
    if args.record:
        every[build()] = {**recorded, **found}
        COUNTS.write_text(json.dumps(every, indent=2) + "\n", encoding="utf-8")
        print(f"recorded {len(found)} counts for {build()} in {COUNTS.name}")
        return 0
    print("\n".join(compared(found, recorded, args.tolerance)))
    of_these = {name: recorded[name] for name in found if name in recorded}
    return 1 if worse(found, of_these, args.tolerance) else 0


def compared(found: Mapping[str, float], recorded: Mapping[str, float], tolerance: float) -> Iterator[str]:
    """A line for each program: instructions then and now. What is better counts as news, too."""
    for name, now in found.items():
        floor = found.get(name.replace("decode/", "decode-floor/").replace("call/", "floor/"), now)
        times = f"{now / floor:6.2f}x" if floor != now else " " * 7
        old = recorded.get(name)
        if old is None:
            yield f"{name:<36} {'new':>13} -> {now:>13,.0f} {times}"
            continue
        change = now / old - 1
        news = "  WORSE" if change > tolerance else "  better: --record" if change < -tolerance else ""
        yield f"{name:<36} {old:>13,.0f} -> {now:>13,.0f} {times} {change:>+7.1%}{news}"


def main() -> int:
    """Compares, or records with --record."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench_guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="write what this run finds as the new record")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind")
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="programs to count, such as 'decode/*' (all)"
    )
    allowed = f"how much worse is allowed ({TOLERANCE}; of instructions {TOLERANCE_OF_COUNTS})"
    parser.add_argument("--tolerance", type=float, help=allowed)
    args = parser.parse_args()
    if args.tolerance is None:
        args.tolerance = TOLERANCE_OF_COUNTS if args.instructions else TOLERANCE
    if args.instructions:
        return counted(args)
    recorded: dict[str, float] = {} if args.record else json.loads(BASELINE.read_text(encoding="utf-8"))
    with server.running() as base:
        if args.record:
            return record([measured(base) for _ in range(TRIES)])
        found = measured(base)
        for _ in range(TRIES - 1):
            again = worse(found, recorded, args.tolerance)
            if not again:
                break
            for key, value in measured(base, again).items():
                found[key] = min(value, found[key]) if key in found else value
    failed = worse(found, recorded, args.tolerance)
    for key, old in recorded.items():
        shown = f"{found[key]:6.2f}x" if key in found else "   gone"
        print(f"{key:<40} {old:6.2f}x -> {shown}{'  WORSE' if key in failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
