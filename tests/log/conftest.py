"""Stores for the tests: memory, a file, a Redis server, and in the complete run a PostgreSQL server."""

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


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> str:
    """The address of one for all tests: each takes 7 MB."""
    return postgres.database("log")


def emptied(address: str) -> str:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return address


POSTGRES = pytest.param("postgres", marks=pytest.mark.slow)


@pytest.fixture(params=["memory", "sqlite", "redis", POSTGRES])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store, for `open_logs`."""
    if request.param == "memory":
        return "memory:"
    return shared_address(request, tmp_path)


@pytest.fixture(params=["sqlite", "redis", POSTGRES])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store that processes share."""
    return shared_address(request, tmp_path)


def shared_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'runs.db'}"
    if request.param == "postgres":
        return emptied(request.getfixturevalue("postgres_database"))
    return flushed(request.getfixturevalue("redis_server"))
