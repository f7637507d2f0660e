"""What the fuzzer holds every input to, held to its seeds; the fuzzer itself needs hours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llmstream.dialects.base import DIALECTS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FRAMINGS = ("sse", "ndjson", "aws-event-stream")


def test_every_target_takes_its_seeds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--seeds"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert set(counts) == {*DIALECTS, *FRAMINGS, "partial-json"}
    assert all(count >= 6 for count in counts.values()), counts


@pytest.mark.parametrize("target", ["openai-chat", "sse", "partial-json"])
def test_a_defect_is_a_crash(target: str) -> None:
    spoil = {
        "openai-chat": "import llmstream.grammar as m; m.Guard.feed = lambda self, events: events + events",
        "sse": "import llmstream.framing.sse as m; m._SMALL_CHUNK_BYTES = 0; m._BOM = b'd'",
        "partial-json": "import llmstream.partial_json as m; m._number = lambda token: 0",
    }[target]
    call = f"from fuzz.__main__ import main; sys.argv = ['fuzz', '{target}', '--seeds']; main()"
    code = f"import sys; {spoil}\n{call}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "AssertionError" in done.stderr or "JSONDecodeError" in done.stderr, done.stderr
