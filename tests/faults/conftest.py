"""What the faults share: the package `faultmatrix` beside this file, and the rows that a test is of."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "row(*numbers): rows of the catalogue of faults")
    config.addinivalue_line("markers", "threat(*numbers): rows of the catalogue of threats")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule() -> Generator[None, pytest.Module, pytest.Module]:
    """Marks every test of this folder as slow."""
    module = yield
    module.add_marker(pytest.mark.slow)
    return module
