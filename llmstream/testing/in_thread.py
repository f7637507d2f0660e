"""Servers for tests that are not async: they run in a thread with an event loop of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from anyio.from_thread import start_blocking_portal

__all__ = ["in_thread"]

_T = TypeVar("_T")


@contextmanager
def in_thread(server: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
    """`with in_thread(Simulator(script)) as simulator:` is `async with`, for a test that is not async.

    server: entered and left in the thread; it listens on a port, so whoever asks it may be anywhere
    """
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as entered:
        yield entered
