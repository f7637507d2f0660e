"""Cancels a task at chosen places, for tests of what is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["CancelledAt"]


class CancelledAt:
    """Awaits a coroutine and cancels its task at the nth places where it waits.

    reached: how often it has waited
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *places: int) -> None:
        self._coroutine = coroutine
        self._places = places
        self.reached = 0

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            waited = self._coroutine.send(None)
            while True:
                self.reached += 1
                if self.reached in self._places:
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                try:
                    value = yield waited
                except BaseException as error:
                    waited = self._coroutine.throw(error)
                else:
                    waited = self._coroutine.send(value)
        except StopIteration:
            return
