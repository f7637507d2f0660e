"""The whole corpus at once, and the page that sums it up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


def test_recordings_equal_or_explained(shared_dir: Path) -> None:
    """The page states how many."""
    if not (shared_dir / "corpus").is_dir() or not (shared_dir / "corpus_compare.py").is_file():
        pytest.skip("the corpus is not here")
    argv = [sys.executable, str(ROOT / "scripts" / "corpus"), "--page"]
    done = subprocess.run(argv, capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr.decode()
    page = (ROOT / "docs" / "corpus" / "README.md").read_bytes()
    assert page == done.stdout, "run scripts/corpus --page > docs/corpus/README.md"
