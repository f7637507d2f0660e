"""Stores for the tests: memory, a file, and a Redis server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer, removed, started
from tests.redis_servers import flushed


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = started()
    yield server
    removed(server)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store, for `open_logs`."""
    if request.param == "memory":
        return "memory:"
    return shared_address(request, tmp_path)


@pytest.fixture(params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store that processes share."""
    return shared_address(request, tmp_path)


def shared_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'runs.db'}"
    return flushed(request.getfixturevalue("redis_server"))
