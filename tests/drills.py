"""The full forms of the drills, whose quick forms are tests: scripts/drills NAME [--quick] [ARGUMENTS].

  kills       durable runs, killed at every place, once and twice, in eight variants, on two databases
  takeovers   runs that change hands at every place: killed deciders, sleepers behind the dead, new versions
  fleet       four workers, some of them killed every five seconds, for five minutes a database
  programs    200 random agents a database, on workers that are killed, put to sleep and woken at random times
  recoveries  200 runs, killed and taken over after random delays, a database
  engines     runs on DBOS and Restate, whose workers are killed (extra frameworks)
  batches     the submitters of batch jobs, killed at every request
  cache       processes that store responses, killed 50 times a store
  map         a million rows, the process killed after each 30,000 (--rows, --kill-every)
  limits      eight processes with one shared limiter for five minutes (--seconds, --store)
  all         one after the other

They say every ten seconds how far they are, and at the end whether they passed: the exit code is 0 only if
they did. Further arguments go to pytest, or to the programs of `map` and `limits`; --quick is a short form.
Redis, PostgreSQL and the engines are started by the drills. What is not installed is skipped, which the
verdict counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.progress import PROGRESS

__all__ = ["DRILLS", "Drill", "main"]

ROOT = Path(__file__).resolve().parents[1]
EVERY_S = 10


@dataclass(frozen=True)
class Drill:
    """How a drill is run.

    tests:   arguments of pytest; none for a program
    program: a module, run in place of pytest
    full:    variables of the environment of the full form
    quick:   arguments of the program in its quick form
    """

    tests: tuple[str, ...] = ()
    program: str = ""
    full: dict[str, str] = field(default_factory=dict)
    quick: tuple[str, ...] = ()


_SWEEP = {"DURABLE_SWEEP": "1"}
DRILLS = {
    "kills": Drill(("tests/durable/test_kills.py",), full=_SWEEP),
    "takeovers": Drill(("tests/durable/test_takeovers.py",), full=_SWEEP),
    "fleet": Drill(("tests/durable/test_fleet.py", "-k", "any_time"), full=_SWEEP),
    "programs": Drill(("tests/durable/test_programs.py",), full=_SWEEP),
    "recoveries": Drill(("tests/durable/test_fleet.py", "-k", "recoveries"), full=_SWEEP),
    "engines": Drill(("tests/peers/test_dbos.py", "tests/peers/test_restate.py"), full=_SWEEP),
    "batches": Drill(("tests/batches/test_killed.py",), full={"LLMSTREAM_KILLS": "all"}),
    "cache": Drill(("tests/middleware/test_cache_processes.py",), full={"LLMSTREAM_KILLS": "50"}),
    "map": Drill(program="tests.mapping.drill", quick=("--rows", "10000", "--kill-every", "3000")),
    "limits": Drill(program="tests.transport.fleet.drill", quick=("--seconds", "15")),
}


def run(name: str, *, quick: bool, arguments: list[str]) -> tuple[bool, str]:
    """Runs a drill; returns whether it passed, and the verdict."""
    drill, began = DRILLS[name], time.monotonic()
    full = {} if quick else drill.full
    environment = {**os.environ, PROGRESS: str(EVERY_S), **full}
    print(f"drill {name}, {'quick' if quick else 'full'} form", flush=True)
    with tempfile.TemporaryDirectory(prefix="drills") as folder:
        report = Path(folder) / "report.xml"
        if drill.program:
            command = ["-m", drill.program, *(drill.quick if quick else ()), *arguments]
        else:
            pytest = ["-m", "pytest", "-q", "-s", "-rs", "-m", "", f"--junitxml={report}"]
            command = [*pytest, *drill.tests, *arguments]
        code = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment).returncode
        passed, counts = code == 0, ""
        if not drill.program:
            found = _counts(report)
            # Nothing but skipped tests is no proof, although it is no failure of pytest.
            passed = passed and found["passed"] > 0
            counts = "; " + ", ".join(f"{number} {kind}" for kind, number in found.items())
    took = f"{time.monotonic() - began:.0f} s, exit code {code}{counts}"
    return passed, f"drill {name}: {'PASSED' if passed else 'FAILED'} ({took})"


def _counts(report: Path) -> Counter[str]:
    found = Counter[str](passed=0)
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
            found[kinds.pop() if kinds else "passed"] += 1
    return found


def main() -> int:
    """The command."""
    name, *rest = sys.argv[1:] or [""]
    if name in ("-h", "--help"):
        print(__doc__)
        return 0
    if name not in (*DRILLS, "all"):
        print(__doc__, file=sys.stderr)
        return 2
    quick = "--quick" in rest
    arguments = [argument for argument in rest if argument != "--quick"]
    verdicts = [run(each, quick=quick, arguments=arguments) for each in (DRILLS if name == "all" else [name])]
    print(*(text for _, text in verdicts), sep="\n")
    return 0 if all(passed for passed, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
