"""The suite's own rules: slow tests are left out by default, and a marker that does not exist fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def said(*arguments: object) -> str:
    """The output of pytest with this project's settings."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_left_out_tests_are_counted(workers: tuple[str, ...]) -> None:
    output = said(*workers, "tests/framing")
    assert "2 slow test functions not run: scripts/check, or pytest -m ''" in output
    assert " passed" in output
    assert "warning" not in output


@pytest.mark.parametrize("arguments", [("-m", "", "tests/framing"), ("tests/framing/test_sse.py",)], ids=str)
def test_all_runs_when_asked_or_named(arguments: tuple[str, ...]) -> None:
    output = said("--collect-only", *arguments)
    assert "test_shared_cases_hold_at_every_cut" in output
    assert "not run" not in output


def test_misspelt_marker_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.slwo\ndef test_it(): pass\n")
    output = said("-c", ROOT / "pyproject.toml", "--rootdir", ROOT, tmp_path)
    assert "'slwo' not found in `markers`" in output
    assert "1 error" in output
