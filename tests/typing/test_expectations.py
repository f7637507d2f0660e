"""mypy and pyright conclude the same types of the public API, see the files of expectations."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPECTATIONS = [str(HERE / "expectations.py"), str(HERE / "tool_expectations.py")]


def checked(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_concludes_the_types() -> None:
    pytest.importorskip("mypy", reason="mypy comes with the extra `dev`")
    checked(sys.executable, "-m", "mypy", "--strict", *EXPECTATIONS)


def test_pyright_concludes_the_types() -> None:
    """The package of PyPI fetches pyright from npm when it first runs, so it is taken from there at once."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or HERE.parent / "peers" / "node_modules")
    pyright, node = modules / "pyright" / "index.js", shutil.which("node")
    if node is None or not pyright.exists():
        pytest.skip("pyright is not installed: npm install --prefix tests/peers")
    checked(node, str(pyright), "--pythonpath", sys.executable, *EXPECTATIONS)
