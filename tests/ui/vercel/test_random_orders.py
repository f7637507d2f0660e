"""Visitors who do things in a random order on a real server; `wandering` has what must hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import NEWEST, STRICT, Answers, major_of
from .wandering import check_wandering

READERS = [package for package in (*NEWEST, *STRICT) if major_of(package) > 5]


def check_no_exception(folder: Path) -> None:
    assert "Traceback" not in (folder / "errors").read_text()


async def test_random_orders(tmp_path: Path) -> None:
    await check_wandering(tmp_path, seed=1, visitors=4, steps=8)
    check_no_exception(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (3, 4, 5))])
async def test_random_orders_and_kills(tmp_path: Path, seed: int) -> None:
    await check_wandering(tmp_path, seed, visitors=12, steps=15, kills=4)
    check_no_exception(tmp_path)


@pytest.mark.slow
async def test_packages_accept_all_of_it(tmp_path: Path, complaints: Callable[..., Answers]) -> None:
    visitors = await check_wandering(tmp_path, seed=7, visitors=6, steps=12)
    bodies = [body for visitor in visitors for body in visitor.bodies]
    assert len(bodies) > 20
    for body in bodies:
        # Their errors are not: they read a response without the message that it continues.
        assert [one for found in complaints(body, *READERS).values() for one in found["found"]] == []
