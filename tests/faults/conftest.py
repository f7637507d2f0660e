"""What the faults share: the package `faultmatrix` beside this file, and the rows that a test is of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(*numbers): rows of the catalogue of faults")
    config.addinivalue_line("markers", "threat(*numbers): rows of the catalogue of threats")
