"""Waits for the end of a task, so that none is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio

__all__ = ["ended"]


async def ended(task: asyncio.Task[Any], *, at_once: bool = False, within_s: float | None = None) -> None:
    """Waits for the end of a task and its cleanup, even if the waiting task is cancelled.

    at_once:  cancels it now
    within_s: cancels it after this time
    """
    if at_once:
        task.cancel()
    interrupted: BaseException | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=within_s)
            if not task.done():
                within_s = None
                task.cancel()
        except asyncio.CancelledError as error:
            interrupted = error
            task.cancel()
    if not task.cancelled():
        # Retrieved, so that asyncio does not log it as never retrieved.
        task.exception()
    if interrupted is not None:
        raise interrupted
