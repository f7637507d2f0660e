"""The command `scripts/drift`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drift.__main__ import main
from drift.record import load
from drift.sdks import version_of

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore")


def test_help_needs_nothing() -> None:
    """Not even our own dependencies: the usual form installs them."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}];"
         "import drift.__main__ as m; m.main(['--help'])"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout


def test_unknown_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--quick", "acme"])
    assert "no reader for acme. Packages: openai, anthropic" in capsys.readouterr().err


@pytest.mark.slow
def test_the_quick_form(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ollama", reason="ollama is not installed (extra: test)")
    recorded = load("ollama")
    assert recorded is not None
    status = main(["--quick", "ollama"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"ollama: ollama {version_of('ollama')}") for line in lines)
    assert any(line.startswith("requests: ") for line in lines)
    if recorded["sdk"] == f"ollama {version_of('ollama')}":
        assert status == 0, lines
        assert lines[-1].startswith("Nothing is lost or violated")
