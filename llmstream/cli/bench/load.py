"""Sends the requests of a benchmark and measures them: prompts, closed and open loop, overhead.

In a closed loop, a fixed number of requests is in flight, so a slow server reduces its own load.
In an open loop, requests arrive even if the server cannot keep up, as those of users do, and
latency counts from when they were due.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TextIO, TypeAlias

from llmstream import (
    File,
    Finish,
    LLMStreamError,
    Model,
    ReasoningDelta,
    StreamStart,
    TextDelta,
    ToolInputDelta,
)
from llmstream.cli.bench.report import Overhead, Sample, spread
from llmstream.cli.errors import error_message
from llmstream.cli.terminal import typed
from llmstream.errors import CallerError, InvalidRequest

__all__ = [
    "Now",
    "One",
    "Progress",
    "PromptOf",
    "Sleep",
    "Watch",
    "arrivals",
    "closed_loop",
    "lines_of",
    "made_prompt",
    "measure",
    "open_loop",
]

One: TypeAlias = Callable[[int, float], Awaitable[None]]
"""Makes one request, given its number from 0 and the time at which it is due."""
Now: TypeAlias = Callable[[], float]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]


def arrivals(count: int, per_s: float, seed: int) -> Iterator[float]:
    """Yields when requests are due, in seconds from the start: a Poisson process, the first at 0."""
    rng = random.Random(seed)  # noqa: S311  (a load, not a secret)
    due = 0.0
    for _ in range(count):
        yield due
        due += rng.expovariate(per_s)


async def closed_loop(one: One, count: int, at_a_time: int, now: Now = time.perf_counter) -> None:
    """Runs workers that each send the next request when the last one is answered."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await one(number, now())

    await _run_all(work() for _ in range(min(at_a_time, count)))


async def open_loop(
    one: One,
    dues: Iterator[float],
    now: Now = time.perf_counter,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Sends each request when it is due, regardless of how many are unanswered."""
    began = now()
    try:
        async with asyncio.TaskGroup() as group:
            for number, due in enumerate(dues):
                wait = began + due - now()
                if wait > 0:
                    await sleep(wait)
                group.create_task(_awaited(one(number, began + due)))
    except BaseExceptionGroup as several:
        _raise_first(several)


async def _run_all(works: Iterator[Awaitable[None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(_awaited(work))
    except BaseExceptionGroup as several:
        _raise_first(several)


def _raise_first(several: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Raises the first error: an error before a request is sent is the same for all of them."""
    raise several.exceptions[0] from None


# A task needs a coroutine, and `One` may return any awaitable.
async def _awaited(work: Awaitable[None]) -> None:
    await work


PromptOf: TypeAlias = Callable[[int], str]
"""Gives the prompt of a request by its number; warm-up requests have numbers below 0."""

# Common words, which are one token each in the vendors' tokenizers.
_WORDS: Final = (  # noqa: SIM905
    "time river stone light garden winter paper window morning letter silver road bread music cloud "
    "summer forest bridge corner market ocean ladder candle village harbor engine mirror feather"
).split()


def made_prompt(number: int, tokens: int, seed: int) -> str:
    """Makes a prompt of about that many tokens, different for each request to avoid caches."""
    rng = random.Random(f"{seed}:{number}")  # noqa: S311  (a load, not a secret)
    return " ".join(rng.choice(_WORDS) for _ in range(tokens))


def lines_of(file: str) -> list[str]:
    """Reads prompts from a file, one per line; skips empty lines.

    raises: InvalidRequest if the file cannot be read or has no prompts
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            prompts = [typed(line.strip()) for line in source if line.strip()]
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None
    if not prompts:
        raise InvalidRequest(f"{file} has no prompts. Write one per line.")
    return prompts


async def measure(
    model: Model,
    prompt: str,
    sample: Sample,
    *,
    due: float,
    now: Now = time.perf_counter,
    **options: Any,
) -> Sample:
    """Makes one request and updates the sample while it streams.

    due:    on the clock of `now`
    raises: CallerError for a request that is invalid before it is sent; so are all others
    """
    sample.late_s = now() - due
    content = (TextDelta, ReasoningDelta, ToolInputDelta, File)
    last = 0.0
    try:
        async with model.stream(prompt, **options) as stream:
            async for event in stream:
                if isinstance(event, content):
                    at = now() - due
                    if sample.first_token_s is None:
                        sample.first_token_s = at
                        if sample.first_event_s is None:
                            sample.first_event_s = at
                    else:
                        sample.gaps_s.append(at - last)
                    last = at
                    sample.fragments += 1
                elif isinstance(event, Finish):
                    sample.input_tokens = event.usage.input_tokens
                    sample.output_tokens = event.usage.output_tokens
                # `stream-start` is created locally, before the first byte.
                elif sample.first_event_s is None and not isinstance(event, StreamStart):
                    sample.first_event_s = now() - due
    except CallerError:
        raise
    except LLMStreamError as error:
        sample.error, sample.message = error.code, error_message(error)
    sample.end_s = now() - due
    sample.writing_s = last - sample.first_token_s if sample.first_token_s is not None else 0.0
    return sample


_TICK_S: Final = 0.01


class Watch:
    """Measures this process while an `async with` block runs; then `overhead` has the result."""

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


# Minimum time between drawings, because drawing distorts the measurement.
_PAUSE_S: Final = 0.1


class Progress:
    """Shows progress on a terminal while a `with` block runs, then removes it.

    A bar with rich (extra `cli`), else one line that is overwritten. Shows nothing without a terminal.
    """

    def __init__(self, total: int, out: TextIO | None = None, *, shown: bool = True) -> None:
        self._total = total
        self._done = self._failed = 0
        self._drawn = 0.0
        self._out = out if out is not None else sys.stderr
        self._shown = shown and self._out is not None and self._out.isatty()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._shown:
            self._bar = _bar_of(self._total, self._out)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def advance(self, *, failed: bool = False) -> None:
        """Counts one finished request."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if not self._shown or (now - self._drawn < _PAUSE_S and self._done < self._total):
            return
        self._drawn = now
        text = f"{self._done}/{self._total}" + (f", {self._failed} failed" if self._failed else "")
        if self._bar is None:
            self._out.write(f"\r\x1b[K{text}")
            self._out.flush()
        else:
            self._bar.update(self._bar.task_ids[0], completed=self._done, description=text)
            self._bar.refresh()


def _bar_of(total: int, out: TextIO) -> Any:
    try:
        from rich.console import Console
        from rich.progress import Progress as Bars
    except ImportError:
        return None
    bars = Bars(console=Console(file=out), auto_refresh=False, transient=True)
    bars.add_task(f"0/{total}", total=total)
    bars.start()
    return bars
