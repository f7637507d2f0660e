"""Visitors who do things in a random order with the real client; `wandering` has what must hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import PACKAGE, Client, running
from .wandering import check_wandering


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        found = []
        for number in range(3):
            (place := tmp_path / f"client{number}").mkdir()
            found.append(stack.enter_context(running(PACKAGE, place)))
        yield found


async def test_random_orders(tmp_path: Path, client: Client) -> None:
    await check_wandering(tmp_path, [client], seed=1, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (3, 4))])
async def test_random_orders_and_kills(tmp_path: Path, clients: list[Client], seed: int) -> None:
    await check_wandering(tmp_path, clients, seed, steps=12, kills=3)
