from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmstream.store import Store, open_store


class Clock:
    """Seconds since 1970 that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., Store]]:
    """`opened()` opens the store, as another process would; all are closed at the end."""
    stores: list[Store] = []

    def start(**options: object) -> Store:
        stores.append(open_store(f"sqlite:{path}", **{"clock": Clock(), **options}))  # type: ignore[arg-type]
        return stores[-1]

    yield start
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[..., Store]) -> Store:
    return opened()
