"""Runs of one process: each in a task of its own, with its events for readers that come later."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import Final

from llmstream.errors import ErrorInfo, IncompleteStream, LLMStreamError
from llmstream.events import Event
from llmstream.grammar import Guard
from llmstream.ui.vercel.runs import PageRun

__all__ = ["LocalRuns"]

_log: Final = logging.getLogger("llmstream")

_MAX_ENDED = 100
"""Ended runs whose events are stored, for readers that are behind."""


class _Run:
    def __init__(self, source: PageRun) -> None:
        self.source = source
        self.events: list[Event] = []
        self.ended = False
        self.ended_at = 0.0
        self.changed = asyncio.Event()
        self.guard = Guard()
        self.task: asyncio.Task[None] | None = None

    def add(self, events: list[Event]) -> None:
        self.events += events
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def read(self) -> None:
        error: ErrorInfo | None = None
        try:
            async for event in self.source:
                self.add([event] if not self.events else self.guard.feed([event]))
            error = IncompleteStream("the run ended without a finish").info
        except asyncio.CancelledError:
            error = ErrorInfo("stopped", "The run was stopped.", retryable=False)
        except LLMStreamError as failure:
            error = failure.info
        except Exception:
            _log.exception("the source of a run failed")
        finally:
            await self.source.aclose()
            error = error or LLMStreamError("the program that produced the run failed").info
            self.add(self.guard.close(self.source.total_usage, error))
            self.ended, self.ended_at = True, time.monotonic()
            self.add([])


class LocalRuns:
    """Starts, follows and stops runs by their ids."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    async def start(self, run: str, source: PageRun) -> None:
        """Begins to read a source, in a task of its own."""
        ended = [name for name, known in self._runs.items() if known.ended]
        for name in ended[:-_MAX_ENDED]:
            del self._runs[name]
        found = self._runs[run] = _Run(source)
        found.task = asyncio.create_task(found.read())

    async def follow(self, run: str) -> AsyncGenerator[tuple[int, Event]]:
        """Yields the events of a run with their numbers, from the first on."""
        found, place = self._runs[run], 0
        while True:
            changed = found.changed
            while place < len(found.events):
                yield place, found.events[place]
                place += 1
            if found.ended:
                return
            await changed.wait()

    async def stop(self, run: str) -> bool:
        """Stops a run and waits for its end; False if it is not in progress."""
        found = self._runs.get(run)
        if found is None or found.ended or found.task is None:
            return False
        found.task.cancel()
        await asyncio.wait((found.task,))
        return True

    async def is_open(self, run: str) -> bool:
        """Whether events may follow."""
        found = self._runs.get(run)
        return found is not None and not found.ended

    async def is_recent(self, run: str, within_s: float) -> bool:
        """Whether events may follow, or ended so many seconds ago at most."""
        found = self._runs.get(run)
        return found is not None and (not found.ended or time.monotonic() - found.ended_at <= within_s)

    async def aclose(self) -> None:
        """Stops all runs."""
        for run in list(self._runs):
            await self.stop(run)
