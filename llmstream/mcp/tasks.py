"""Waiting for the end of a task that somebody else might leave behind."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio

__all__ = ["ended"]


async def ended(task: asyncio.Task[Any], *, at_once: bool = False, within_s: float | None = None) -> None:
    """Waits for a task, cancelled now or after a while, and for its cleanup, whatever happens to us."""
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
        task.exception()  # looked at, so that asyncio does not complain of it
    if interrupted is not None:
        raise interrupted
