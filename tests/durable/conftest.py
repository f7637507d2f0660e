"""Databases of durable runs: a file, and a PostgreSQL server of this session's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer, removed, started

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = started()
    yield server
    removed(server)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes an empty database; returns its address."""
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        return lambda: server.database(f"runs{next(_numbers)}")
    return lambda: f"sqlite:{tmp_path / f'runs{next(_numbers)}.db'}"


@pytest.fixture
def place(make_place: Callable[[], str]) -> str:
    return make_place()
