"""What the benchmark itself takes: its share of a core, and how late its event loop is.

A loop that is late reads late, and what it measures is itself. So both are always told.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Final, Self

import msgspec

from llmstream.cli.bench_stats import Spread, spread

__all__ = ["Overhead", "Watch"]

_TICK_S: Final = 0.01


class Overhead(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The harness's own costs.

    cpu_share:  of one core, user and system time of this process; a simulator in it included
    loop_lag_s: how late the event loop woke a task, sampled a hundred times a second
    """

    cpu_share: float
    loop_lag_s: Spread | None = None


class Watch:
    """`async with Watch() as watch`: watches while the block runs; then `watch.overhead`."""

    def __init__(self) -> None:
        self.overhead = Overhead(cpu_share=0.0)
        self._lags: list[float] = []

    async def __aenter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.overhead = Overhead(cpu_share=cpu / wall if wall > 0 else 0.0, loop_lag_s=spread(self._lags))

    async def _tick(self) -> None:
        while True:
            due = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._lags.append(max(0.0, time.perf_counter() - due))
