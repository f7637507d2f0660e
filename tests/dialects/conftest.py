"""What tests of several dialects share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def compare_case(shared_dir: Path) -> Any:
    """Compares events with what another implementation made of a recording; returns the differences."""
    path = shared_dir / "corpus_compare.py"
    if not path.is_file():
        pytest.skip("the corpus comparison is not here")
    spec = importlib.util.spec_from_file_location("corpus_compare", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare_case
