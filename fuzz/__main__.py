"""`scripts/fuzz`: runs targets one after another, shows how far they are, and keeps what crashed."""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fuzz.seeds import ROOT, seeds, words
from fuzz.table import noted
from fuzz.targets import TARGETS, load

WORK = ROOT / ".fuzz"
_COUNT = re.compile(rb"^#(\d+)\s|^stat::number_of_executed_units:\s*(\d+)|^Done (\d+) runs")
_CRASH = re.compile(rb"Test unit written to (\S+)")


def main() -> int:
    """The command."""
    options = _parser().parse_args()
    if options.seeds:
        return _try_seeds(options.target or list(TARGETS))
    if importlib.util.find_spec("atheris") is None:
        print("atheris is missing: pip install atheris (it has wheels for Linux)", file=sys.stderr)
        return 2
    if options.reproduce:
        return subprocess.call(_command(options.target[0], str(options.reproduce)), cwd=ROOT)
    crashed = [
        name for name in options.target or TARGETS if _fuzz(name, options.runs, options.seconds, options.note)
    ]
    return 1 if crashed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "target", nargs="*", help="of: " + ", ".join(TARGETS) + "; by default all", default=[]
    )
    parser.add_argument("--runs", type=int, default=100_000, help="executions of each target (100000)")
    parser.add_argument("--seconds", type=int, default=0, help="stop each target after so long (no limit)")
    parser.add_argument(
        "--note", action="store_true", help="add the executions to the table of fuzz/README.md"
    )
    parser.add_argument("--seeds", action="store_true", help="only try our own seeds once, without atheris")
    parser.add_argument("--reproduce", type=Path, metavar="FILE", help="run one target on one kept input")
    return parser


def _try_seeds(names: list[str]) -> int:
    """Every seed once, whole and with its end missing."""
    for name in names:
        test, inputs = load(name), seeds(name, outside=False)
        for seed in inputs:
            test(seed)
            test(seed[: len(seed) * 2 // 3])
        print(f"{name:<20} {2 * len(inputs):>6} inputs")
    return 0


def _fuzz(name: str, runs: int, seconds: int, note: bool) -> bool:
    """Runs one target; gives whether it crashed."""
    folder = WORK / name
    corpus, begin = folder / "corpus", folder / "seeds"
    crashes = WORK / "crashes" / name
    for path in (corpus, begin, crashes):
        path.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (begin / f"{number:04}").write_bytes(seed)
    quoted = [b'"' + b"".join(b"\\x%02x" % byte for byte in word) + b'"\n' for word in words(name)]
    (folder / "words").write_bytes(b"".join(quoted))
    command = _command(
        name,
        str(corpus),
        str(begin),
        f"-runs={runs}",
        f"-max_len={TARGETS[name].max_len}",
        f"-max_total_time={seconds}",
        f"-artifact_prefix={crashes}/",
        f"-dict={folder / 'words'}",
        "-timeout=20",
        "-print_final_stats=1",
        "-verbosity=1",
    )
    done, crash = _watch(name, command, runs)
    if note:
        noted(name, done, crash is not None)
    if crash is not None:
        print(f"{name}: it crashed. Again: scripts/fuzz {name} --reproduce {crash}")
    return crash is not None


def _command(name: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "fuzz.child", name, *options]


def _watch(name: str, command: list[str], runs: int) -> tuple[int, str | None]:
    """Shows how far it is; gives the executions and the file of the input that crashed, if one did."""
    done, shown, crash, begun = 0, 0.0, None, time.monotonic()
    tail: list[bytes] = []
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for line in _lines(process):
            if count := _COUNT.match(line):
                done = int(next(filter(None, count.groups())))
            if found := _CRASH.search(line):
                crash = found[1].decode()
            tail = [*tail[-60:], line]
            now = time.monotonic()
            if now - shown >= 1:
                shown = now
                _show(name, done, runs, now - begun)
    except KeyboardInterrupt:
        process.terminate()
    code = process.wait()
    _show(name, done, runs, time.monotonic() - begun, end="\n")
    if code and crash is None and done < runs:
        crash = "(no file; the last words are below)"
    if crash is not None:
        sys.stdout.buffer.write(b"".join(tail))
    return done, crash


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert process.stdout is not None
    yield from process.stdout


def _show(name: str, done: int, runs: int, seconds: float, *, end: str = "") -> None:
    rate = done / max(seconds, 0.001)
    print(f"\r{name:<20} {done:>12,} of {runs:,}  {rate:>8,.0f}/s", end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
