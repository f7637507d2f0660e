"""Many streams in trouble, in a process of their own: nothing of them stays."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


async def test_no_leaks_after_300_broken_streams() -> None:
    soak = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "soak", "--streams", "300", "--concurrent", "50", "--seed", "7",
        cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await soak.communicate()
    said = out.decode()
    assert soak.returncode == 0, said
    assert "passed: 0 wrong" in said
    assert re.search(r"^descriptors +(\d+) after the warm-up +\1 at the end$", said, re.MULTILINE)
    for kind in ("cut", "reset", "stalled", "overloaded", "left", "cancelled"):
        assert re.search(rf"\d+ {kind}", said), kind
