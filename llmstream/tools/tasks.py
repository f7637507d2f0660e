"""Waiting for the end of tasks that somebody else might leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import anyio

__all__ = ["cancelled", "finished"]


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels the tasks once and waits for their cleanup, however often the waiter is cancelled.

    A waiter that is cancelled passes that on to what still runs, and goes on waiting; the cancellation
    is raised at the end.
    """
    running = {task for task in tasks if not task.done()}
    for task in running:
        task.cancel()
    await finished(running)


async def finished(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Waits until the tasks are over; a waiter that is cancelled cancels them and goes on waiting.

    What they raise is theirs: it is looked at, so that asyncio does not complain, and not raised.
    """
    every = set(tasks)
    running = {task for task in every if not task.done()}
    interrupted: BaseException | None = None
    while running:
        try:
            with anyio.CancelScope(shield=True):
                _, running = await asyncio.wait(running)
        except asyncio.CancelledError as error:
            interrupted = error
            for task in running:
                task.cancel()
            running = {task for task in running if not task.done()}
    for task in every:
        if not task.cancelled():
            task.exception()
    if interrupted is not None:
        raise interrupted
