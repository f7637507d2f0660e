"""Addresses of shared limits: an SQLite file, and a Redis server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.redis_servers import flushed


@pytest.fixture(params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'limits.db'}"
    return flushed(request.getfixturevalue("redis_server"))
