"""What the faults share: the package `faultmatrix` beside this file, and the rows that a test is of."""

from __future__ import annotations

import gc
import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(*numbers): rows of the catalogue of faults")
    config.addinivalue_line("markers", "threat(*numbers): rows of the catalogue of threats")


_tests = itertools.count()


@pytest.fixture(autouse=True)
def frozen() -> None:
    """What has gathered by now is not looked at by each of the many collections that leaks are found by."""
    if next(_tests) % 100 == 0:
        gc.collect()
        gc.freeze()
