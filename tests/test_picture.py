"""`scripts/picture` draws what a terminal showed."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow
def test_picture_rests_on_last_screen(tmp_path: Path) -> None:
    """What a viewer without animation shows is the last screen; before it, rows stood for some time."""
    pytest.importorskip("pyte", reason="the dev extra is not installed")
    command = [sys.executable, ROOT / "scripts" / "picture", "--out", tmp_path]
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)
    for name in ("demo-light.svg", "demo-dark.svg"):
        picture = ElementTree.parse(tmp_path / name).getroot()
        lasting = [row for row in picture.iter(f"{SVG}g") if row.get("visibility") != "hidden"]
        passing = [row for row in picture.iter(f"{SVG}g") if row.get("visibility") == "hidden"]
        rows = ["".join(row.itertext()).strip() for row in lasting]
        assert rows[0].startswith("Asking a simulated model over HTTP")
        assert any("a warm coat and a scarf" in row for row in rows)
        assert rows[-1].endswith("stop")
        assert passing
        heights = [row.find(f"{SVG}text").get("y") for row in lasting]  # type: ignore[union-attr]
        assert len(heights) == len(set(heights)), "two rows stand in one place"
