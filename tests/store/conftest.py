"""Stores in a file and, in slow tests, in a PostgreSQL server of this session's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmstream.store import Store, open_store
from tests.postgres import PostgresServer, removed, started
from tests.store.drill import emptied

_numbers = itertools.count()


class Clock:
    """Seconds since 1970 that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    found = started()
    yield found
    removed(found)


@pytest.fixture(scope="session")
def postgres_database(server: PostgresServer) -> str:
    """The address of a database, in which each test has the schema for itself."""
    return server.database(f"store{next(_numbers)}")


@pytest.fixture
def no_store(postgres_database: str) -> str:
    """The address of a database without a store."""
    emptied(postgres_database)
    return postgres_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, path: Path) -> str:
    """Of a store that is not there yet. A module that is about files has one of its own."""
    return str(request.getfixturevalue("no_store")) if request.param == "postgres" else f"sqlite:{path}"


@pytest.fixture
def opened(address: str) -> Iterator[Callable[..., Store]]:
    """`opened()` opens the store, as another process would; all are closed at the end."""
    stores: list[Store] = []

    def start(**options: object) -> Store:
        stores.append(open_store(address, **{"clock": Clock(), **options}))  # type: ignore[arg-type]
        return stores[-1]

    yield start
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., Store]) -> Store:
    return opened()
