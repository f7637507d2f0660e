"""`scripts/web_picture` takes the pictures of the guide."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_pictures_of_both_schemes(chromium: str, tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="playwright is not installed")
    command = [sys.executable, ROOT / "scripts" / "web_picture", "--out", tmp_path]
    subprocess.run(command, check=True, cwd=ROOT, timeout=120)
    light, dark = [(tmp_path / f"web-{scheme}.png").read_bytes() for scheme in ("light", "dark")]
    assert light[:8] == dark[:8] == b"\x89PNG\r\n\x1a\n"
    assert light != dark
