"""Things that live as long as their event loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator

from llmstream.transport.sessions import LoopBound, current_session


class Opened:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.bound: LoopBound[str, object] = LoopBound(self.open)

    async def open(self, key: str) -> AsyncGenerator[object]:
        self.log.append(f"open {key}")
        await asyncio.sleep(0)
        try:
            yield object()
        finally:
            self.log.append(f"close {key}")

    async def open_in_loop(self, key: str) -> AsyncGenerator[object]:
        yield asyncio.get_running_loop()


def test_opens_once_per_key_closes_with_loop() -> None:
    opened = Opened()

    async def main() -> None:
        first, second = await asyncio.gather(opened.bound.get("a"), opened.bound.get("a"))
        assert first is second
        assert await opened.bound.get("b") is not first

    asyncio.run(main())
    assert sorted(opened.log) == ["close a", "close b", "open a", "open b"]


def test_another_loop_opens_its_own() -> None:
    opened = Opened()
    for _ in range(2):
        asyncio.run(opened.bound.get("a"))  # type: ignore[arg-type]  # a coroutine it is
    assert opened.log == ["open a", "close a"] * 2


def test_closed_loops_are_dropped() -> None:
    """Of a program that calls `asyncio.run` for each answer, only the last loop stays in memory."""
    loops = weakref.WeakSet[asyncio.AbstractEventLoop]()

    async def main() -> None:
        loops.add(asyncio.get_running_loop())
        await current_session()
        await opened.bound.get("a")

    opened = Opened()
    opened.bound = LoopBound(opened.open_in_loop)
    for _ in range(5):
        asyncio.run(main())
    gc.collect()
    assert len(loops) == 1


async def test_unusable_object_is_opened_again() -> None:
    opened = Opened()
    opened.bound = LoopBound(opened.open, usable=lambda thing: False)
    assert await opened.bound.get("a") is not await opened.bound.get("a")


async def test_a_failure_to_open_is_not_remembered() -> None:
    attempts = 0

    async def flaky(key: str) -> AsyncGenerator[int]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("not yet")
        yield attempts

    bound: LoopBound[str, int] = LoopBound(flaky)
    try:
        await bound.get("a")
    except OSError:
        pass
    assert await bound.get("a") == 2
