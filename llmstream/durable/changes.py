"""Changes of durable runs share commits: those that come while one is under way are in the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Change", "Changes", "Commit"]


class Change(NamedTuple):
    """A statement that waits for its commit, and its first row.

    run: the one that it changes
    row: None if it changed nothing
    """

    run: str
    statement: str
    values: tuple[Any, ...]
    row: asyncio.Future[Any]


Commit: TypeAlias = Callable[[Sequence[Change]], Awaitable[Sequence[Any]]]
"""Runs changes in one transaction; returns the first row of each, or None."""


class Changes:
    """The changes that wait, and the task that commits them."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[Change] = []
        self._committing: asyncio.Task[None] | None = None

    async def row(self, run: str, statement: str, *values: Any) -> Any:
        """The first row that a change returns, once it is committed; None if there is none."""
        change = Change(run, statement, values, asyncio.get_running_loop().create_future())
        self._waiting.append(change)
        # A commit waits for a disk or a server: steps that end side by side share it.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_all(), name="llmstream durable commits")
        return await change.row

    async def settled(self) -> None:
        """Waits until nothing waits: whoever asked for a change gets its result."""
        if self._committing is not None:
            await asyncio.wait([self._committing])

    async def _commit_all(self) -> None:
        await asyncio.sleep(0)  # calls that start side by side come into one commit
        while self._waiting:
            changes, self._waiting = self._waiting, []
            try:
                rows = await self._commit(changes)
            except Exception as error:
                for change in changes:
                    if not change.row.done():
                        change.row.set_exception(error)
                continue
            for change, row in zip(changes, rows, strict=True):
                if not change.row.done():  # else whoever waited was cancelled
                    change.row.set_result(row)
