"""mypy and pyright conclude the same types of tools, see `tool_expectations.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXPECTATIONS = HERE / "tool_expectations.py"


def checked(*command: str) -> None:
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_concludes_the_types_of_tools() -> None:
    pytest.importorskip("mypy", reason="mypy comes with the extra `dev`")
    checked(sys.executable, "-m", "mypy", "--strict", str(EXPECTATIONS))


def test_pyright_concludes_the_types_of_tools() -> None:
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or HERE.parent / "peers" / "node_modules")
    pyright, node = modules / "pyright" / "index.js", shutil.which("node")
    if node is None or not pyright.exists():
        pytest.skip("pyright is not installed: npm install --prefix tests/peers")
    checked(node, str(pyright), "--pythonpath", sys.executable, str(EXPECTATIONS))
