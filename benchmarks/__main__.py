"""`python -m benchmarks [SECTION ...]`: llmstream beside loops written by hand, in one run.

By default all sections, one after the other.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from typing import TextIO

from benchmarks import server
from benchmarks.sections import SECTIONS, Figure


def line(section: str, figure: Figure) -> str:
    """A figure for people."""
    told = []
    for name, value in figure.items():
        if isinstance(value, dict):
            suffix = "x" if name == "ratio" else ""
            shown = "  ".join(f"{key} {number:,.2f}{suffix}" for key, number in value.items())
            told.append(f"{name.replace('_', ' ')}: {shown}")
        else:
            told.append(f"{value:<16}" if isinstance(value, str) else f"{value:>5} {name}")
    return f"{section:<12} " + "  ".join(told)


def machine() -> Figure:
    """What the figures depend on."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return {"python": python, "cores": os.cpu_count(), "date": f"{datetime.date.today():%Y-%m-%d}"}


def run(args: argparse.Namespace, saved: TextIO | None) -> None:
    """Prints a line for each figure; the same as JSON into the file, below what it was measured on."""
    if saved is not None:
        print(json.dumps({"section": "machine", **machine()}), file=saved, flush=True)
    with server.running() as base:
        for section in args.sections or SECTIONS:
            for figure in SECTIONS[section](args, base):
                as_json = json.dumps({"section": section, **figure})
                print(as_json if args.json else line(section, figure), flush=True)
                if saved is not None:
                    print(as_json, file=saved, flush=True)


def main() -> None:
    """Reads the options and runs the sections."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--events", type=int, default=20_000, help="content events in one stream (cpu)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of which the median is taken (cpu)")
    parser.add_argument(
        "--conversations", type=int, default=100_000, metavar="N", help="the most in a store (store)"
    )
    parser.add_argument("--postgres", metavar="ADDRESS", help="an empty database, measured too (store)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="another one, measured too (loops)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, a minute in all")
    parser.add_argument("--json", action="store_true", help="figures as JSON, one line each")
    parser.add_argument("--save", metavar="FILE", help="the figures as JSON lines, for benchmarks.plots")
    args = parser.parse_args()
    unknown = [name for name in args.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    if args.save is None:
        run(args, None)
        return
    try:
        with open(args.save, "w", encoding="utf-8") as saved:
            run(args, saved)
    except OSError as error:
        sys.exit(f"cannot write {args.save}: {error.strerror}")


if __name__ == "__main__":
    main()
