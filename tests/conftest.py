"""Fixtures that the whole suite shares."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of outside cases and recordings; tests over it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with outside cases is not here")
    return SHARED
