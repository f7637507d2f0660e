from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_providers_is_current() -> None:
    script = ROOT / "scripts" / "providers_table"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=True, cwd=ROOT)
    page = (ROOT / "docs" / "providers.md").read_bytes()
    assert page == done.stdout, "run scripts/providers_table > docs/providers.md"
