"""Puts the counter and the floods, a package beside the tests, on the path."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule() -> Generator[None, pytest.Module, pytest.Module]:
    """Marks every test of this folder as slow."""
    module = yield
    module.add_marker(pytest.mark.slow)
    return module
