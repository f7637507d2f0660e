"""`llmstream map --batch`: the rows of a map by a batch API, into the same file.

Rows in the file are not submitted. The record of the batch is next to it, `answers.jsonl.batch`, until each
row has its line; the same command continues it, by a batch or, without `--batch`, one request a row.
"""

from __future__ import annotations

import asyncio
import glob
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from llmstream.batches.batch import Batch, BatchProgress, submit
from llmstream.mapping.asking import Price
from llmstream.mapping.keep import Keep
from llmstream.mapping.result import MapProgress, MapResult
from llmstream.mapping.row import PromptOf, each, row_of
from llmstream.streams.model import Model

__all__ = ["BatchMap", "MapPlan"]


@dataclass(frozen=True, kw_only=True)
class MapPlan:
    """The inputs of a map by batches.

    keep:          opens the output file
    record:        the file of the batch
    options:       of `submit`, output included
    sort:          whether the file is put in the order of the rows at the end
    note:          called with what a person should know
    """

    model: Model[Any]
    items: Iterable[Any] | AsyncIterable[Any]
    prompt_of: PromptOf
    prompt_id: str
    keep: Callable[[], Keep]
    record: str
    options: dict[str, Any]
    finish_online: bool
    dedupe: bool
    price: Price | None
    sort: bool
    poll_s: float
    note: Callable[[str], object]


class BatchMap:
    """One run; used as a `MapRun` is."""

    def __init__(self, plan: MapPlan) -> None:
        self._plan = plan
        self._keep: Keep | None = None
        self._batch: Batch[Any, Any] | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._progress = MapProgress()
        self._stopped = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
        if self._batch is not None:
            self._batch.close()
        if self._keep is not None:
            self._keep.close()

    @property
    def left_over(self) -> int:
        """How many lines of the file belong to rows that this run has not met."""
        return 0 if self._keep is None else self._keep.left_over

    @property
    def progress(self) -> MapProgress:
        """A copy of the current counts."""
        batch = None if self._batch is None else self._batch.progress
        waiting = 0 if batch is None else max(0, batch.requests - batch.finished - batch.failed)
        return replace(self._progress, failed=self._progress.failed.copy(), under_way=waiting)

    def stop(self) -> None:
        """Leaves the batch to the vendor."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def __aiter__(self) -> AsyncGenerator[MapResult[Any, Any]]:
        plan = self._plan
        self._keep = keep = await asyncio.to_thread(plan.keep)
        self._progress = replace(keep.earlier, done=0, stored=0)
        rows, places, keys = await self._pending(keep)
        if rows and await self._answered(rows):
            assert self._batch is not None
            async for done in self._batch.results(poll_s=plan.poll_s):
                index, key = places[done.index], keys[done.index]
                shown = replace(done, index=index)
                row = row_of(done.item, index, plan.prompt_of)
                # Written before it is yielded: a caller that stops here finds it in the file.
                keep.put(index, keep.append(keep.lines.encode(row.fields, shown, key)))
                self._progress.add(shown)
                yield shown
        if self._stopped:
            return
        if plan.sort:
            await asyncio.to_thread(keep.sort)
        self._forget()

    async def _pending(self, keep: Keep) -> tuple[list[Any], list[int], list[int]]:
        """The rows that the file does not have, with their places among all rows, and their keys."""
        plan = self._plan
        rows: list[Any] = []
        places: list[int] = []
        keys: list[int] = []
        index = 0
        async with aclosing(each(plan.items)) as items:
            async for item in items:
                row = row_of(item, index, plan.prompt_of)
                at = keep.take(row.key)
                if at is None:
                    rows.append(item)
                    places.append(index)
                    keys.append(row.key)
                else:
                    keep.put(index, at)
                    self._progress.done += 1
                    self._progress.stored += 1
                index += 1
                if index % 64 == 0:
                    await asyncio.sleep(0)
        return rows, places, keys

    async def _answered(self, rows: list[Any]) -> bool:
        """Submits the rows, or finds submitted jobs, and waits; False if it was stopped."""
        self._waiting = asyncio.create_task(self._wait(rows, _is_there(self._plan.record)))
        try:
            await self._waiting
        except asyncio.CancelledError:
            if not self._stopped:
                raise
        return not self._stopped

    async def _wait(self, rows: list[Any], known: bool) -> None:
        plan = self._plan
        self._batch = batch = await submit(
            plan.model,
            rows,
            keep=plan.record,
            prompt=plan.prompt_of,
            prompt_id=plan.prompt_id,
            finish_online=plan.finish_online,
            dedupe=plan.dedupe,
            price=plan.price,
            **plan.options,
        )
        plan.note(_submitted(batch.progress, known))
        await batch.wait(poll_s=plan.poll_s)

    def _forget(self) -> None:
        """Removes the record and its related files: each row has its line."""
        if self._batch is not None:
            self._batch.close()
        # Also results, temporary files and the lock, which are next to it.
        for path in (self._plan.record, *glob.glob(glob.escape(self._plan.record) + ".*")):
            with suppress(OSError):
                os.unlink(path)


def _is_there(path: str) -> bool:
    return os.path.exists(path)


def _submitted(progress: BatchProgress, known: bool) -> str:
    jobs = f"{progress.jobs:,} batch{'' if progress.jobs == 1 else 'es'}"
    rows = f"{progress.requests:,} request{'' if progress.requests == 1 else 's'}"
    if known:
        return f"found {jobs} of an earlier run, {rows}; {progress.finished:,} are answered"
    return (
        f"submitted {jobs}, {rows}. Answers come within a day. Ctrl-C leaves them to the vendor; the same "
        "command fetches them"
    )
