"""The shared argument of all examples: `--live provider:model`."""

from __future__ import annotations

import argparse
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


def models(doc: str | None, *simulated: str) -> list[str]:
    """The models to use: the simulated ones, or the one of `--live` in place of each."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--live",
        metavar="PROVIDER:MODEL",
        nargs=len(simulated),
        default=list(simulated),
        help="ask real models, with the keys in the environment; by default the simulator answers",
    )
    named: list[str] = parser.parse_args().live
    return named


def model(doc: str | None, simulated: str = "sim:demo") -> str:
    """The same for one model."""
    return models(doc, simulated)[0]
