"""What every provider is sent for five requests, beside what was recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llmstream.providers.registry import provider_names

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "providers" / "requests"
NAMES = [name for name in provider_names() if not name.startswith("sim")]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the script writes now."""
    folder = tmp_path_factory.mktemp("requests")
    script = ROOT / "scripts" / "provider_requests"
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True, cwd=ROOT)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_requests_are_as_recorded(written: Path, name: str) -> None:
    recorded = (RECORDED / f"{name}.json").read_text(encoding="utf-8")
    assert (written / f"{name}.json").read_text(encoding="utf-8") == recorded, "run scripts/provider_requests"


def test_no_recording_is_of_nobody() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == set(NAMES)
