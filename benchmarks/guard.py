"""`python -m benchmarks.guard`: today's ratios beside the recorded ones; status 1 where one is worse.

Ratios against the floor of the same run hardly depend on the machine. The record is the median
of three runs. What is worse than it is measured again, up to three times, and its best counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks import server
from benchmarks.sections import SECTIONS

BASELINE = Path(__file__).with_name("baseline.json")
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


def worse(found: dict[str, float], recorded: dict[str, float], tolerance: float) -> set[str]:
    """The recorded ratios that are exceeded by more than the tolerance, or are gone."""
    return {key for key, old in recorded.items() if found.get(key, float("inf")) > old * (1 + tolerance)}


def record(runs: list[dict[str, float]]) -> int:
    """Writes the median of each ratio as the new record."""
    found = {key: round(statistics.median(run[key] for run in runs), 2) for key in runs[0]}
    BASELINE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"recorded {len(found)} ratios in {BASELINE.name}")
    return 0


def main() -> int:
    """Compares, or records with --record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument(
        "--record", action="store_true", help="write the ratios of this run as the new record"
    )
    parser.add_argument("--tolerance", type=float, default=0.25, help="how much worse is allowed (0.25)")
    args = parser.parse_args()
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
