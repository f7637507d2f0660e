"""Runs a server in a thread with its own event loop, for tests that are not async.

A separate module without imports from the package, because pytest loads it in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from anyio.from_thread import start_blocking_portal

__all__ = ["in_thread"]

_T = TypeVar("_T")


@contextmanager
def in_thread(server: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
    """Enters an async context manager in a thread: `with in_thread(Simulator(script)) as simulator:`.

    server: a server on a port, so that its clients may be in any thread
    """
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as entered:
        yield entered
