"""Notices an async tool that holds up the event loop, as `time.sleep` or a blocking client in it does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar

__all__ = ["Watched"]

T = TypeVar("T")

_log = logging.getLogger("llmstream")

_HELD_S: Final = 0.5
"""Every other stream of the process stands still for that long: far above what a slice of work takes."""


class Watched(Generic[T]):
    """Awaits a coroutine; logs each of its steps between two awaits that took too long.

    name: of the tool
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], name: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._coroutine = coroutine
        self._name = name
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, T]:
        value: Any = None
        thrown: BaseException | None = None
        while True:
            began = self._clock()
            try:
                waits_for = self._coroutine.send(value) if thrown is None else self._coroutine.throw(thrown)
            except StopIteration as over:
                return over.value  # type: ignore[no-any-return]  # of a Coroutine[Any, Any, T]
            finally:
                self._note(self._clock() - began)
            value = thrown = None
            try:
                value = yield waits_for
            except BaseException as error:  # a cancellation is the coroutine's to handle
                thrown = error

    def _note(self, held_s: float) -> None:
        if held_s >= _HELD_S:
            _log.warning(
                "the tool %s blocked the event loop for %.1f s. Write it as a plain `def`, which runs in a "
                "thread, or await asyncio.to_thread(...).",
                self._name,
                held_s,
            )
