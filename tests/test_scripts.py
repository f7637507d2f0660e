"""Every script, and every program among the benchmarks, answers `--help`, and does nothing else then."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())
PROGRAMS = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8") and path.stem != "__main__"
)
# Packages that only the `dev` extra brings.
NEEDS = {"picture": "pyte", "web_picture": "playwright", "inspect_picture": "playwright"}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_help(script: Path, tmp_path: Path) -> None:
    """The help alone is printed, and nothing is written."""
    if script.name in NEEDS:
        pytest.importorskip(NEEDS[script.name])
    first_line = script.read_text(encoding="utf-8").splitlines()[0]
    command = [sys.executable, script] if "python" in first_line else ["sh", script]
    done = subprocess.run(
        [*command, "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"usage: |[A-Z]", done.stdout)
    assert done.stderr == ""
    assert not (ROOT / "--help").exists()  # the name of a folder, for a script that takes one
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "module", [pytest.param(name, marks=() if name == "server" else pytest.mark.slow) for name in PROGRAMS]
)
def test_help_of_a_benchmark(module: str) -> None:
    """Most are processes that `python -m benchmarks` starts."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    assert done.stderr == ""


def test_arguments_that_do_not_fit() -> None:
    """The usage goes to standard error."""
    command = [sys.executable, "-m", "benchmarks.memory", "floor"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python -m benchmarks.memory READER BASE STREAMS WRITES\n")
    assert done.stdout == ""
