"""The suite's own rules: slow tests are left out by default, and a marker that does not exist fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def said(*arguments: object) -> str:
    """The output of pytest with this project's settings."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_left_out_tests_are_counted(workers: int) -> None:
    output = said("-n", workers, "tests/framing")
    assert "2 slow test functions not run: scripts/check, or pytest -m ''" in output
    assert " passed" in output
    assert "warning" not in output


def test_named_file_runs_complete() -> None:
    output = said("--collect-only", "tests/framing/test_sse.py")
    assert "test_shared_cases_hold_at_every_cut" in output
    assert "not run" not in output


def test_misspelt_marker_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.slwo\ndef test_it(): pass\n")
    output = said("-c", ROOT / "pyproject.toml", "--rootdir", ROOT, tmp_path)
    assert "'slwo' not found in `markers`" in output
    assert "1 error" in output
