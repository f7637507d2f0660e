"""The requests and cost of a map, estimated before the first one; its progress, while it runs.

The progress is a bar with its figures on a terminal, else a line from time to time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TextIO

from llmstream.cli.map.rows import BadRow, Row
from llmstream.cli.terminal import print_message
from llmstream.display.terminal_text import one_line
from llmstream.errors import LLMStreamError
from llmstream.mapping.asking import Price
from llmstream.mapping.result import MapProgress
from llmstream.short_forms import counted
from llmstream.streams.options import Prompt, as_messages
from llmstream.usage import Usage

__all__ = [
    "Display",
    "Survey",
    "amount",
    "duration",
    "estimate_lines",
    "failures",
    "figures",
    "fitted",
    "surveyed",
]

# Figures that change more often cannot be read.
_DRAWN_EVERY_S: Final = 0.2
# A log file should not be mostly progress.
_PRINTED_EVERY_S: Final = 10.0
# The rate of the last half minute: long enough for slow answers, short enough to follow the limits.
_RATE_OVER_S: Final = 30.0

_NARROWEST: Final = 20
# Of a terminal that does not report its width.
_USUAL_COLUMNS: Final = 80
# Columns left free: the terminal shows ^C behind the last row, which must not move to a new one.
_ECHO: Final = 3


class Display:
    """Shows the progress while an `async with` block runs, then removes it from the terminal.

    total: rows; None if that is not known
    now:   gives the progress
    """

    def __init__(
        self, total: int | None, now: Callable[[], MapProgress], out: TextIO, *, quiet: bool, color: bool
    ) -> None:
        self._total = total
        self._now = now
        self._out = out
        self._quiet = quiet
        self._color = color
        # A dumb terminal, such as a shell within Emacs, cannot redraw a line: it gets the lines of a pipe.
        self._terminal = out is not None and out.isatty() and os.environ.get("TERM") != "dumb"
        self._rates: deque[tuple[float, int, int]] = deque()
        self._live: Any = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if not self._quiet:
            if self._terminal:
                self._live = _live(self._out, color=self._color)
            self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._live is not None:
            self._live.stop()
        elif self._terminal and not self._quiet:
            self._rewrite("")

    def note(self, message: str) -> None:
        """Prints a message, above the bar if there is one."""
        if self._quiet:
            return
        if self._live is None:
            if self._terminal:
                self._rewrite("")
            print_message(message, self._out)
        else:
            self._live.console.print(f"llmstream: {message}", markup=False, highlight=False)

    async def _tick(self) -> None:
        every_s = _DRAWN_EVERY_S if self._terminal else _PRINTED_EVERY_S
        while True:
            self._measure()
            if self._terminal:
                self._draw()
            await asyncio.sleep(every_s)
            if not self._terminal:
                self._measure()
                self._print(f"llmstream: {', '.join(self._facts())}")

    def _measure(self) -> None:
        progress, now = self._now(), time.monotonic()
        asked = progress.done - progress.stored
        self._rates.append((now, asked, progress.usage.total_tokens or 0))
        # A rate needs two samples.
        while len(self._rates) > 2 and now - self._rates[0][0] > _RATE_OVER_S:
            self._rates.popleft()

    def _facts(self) -> list[str]:
        return figures(self._now(), self._total, *self._speed())

    def _speed(self) -> tuple[float, float]:
        """Rows and tokens per second."""
        (began, rows, tokens), (now, more_rows, more_tokens) = self._rates[0], self._rates[-1]
        span_s = now - began
        if span_s <= 0:
            return 0.0, 0.0
        return (more_rows - rows) / span_s, max(0, more_tokens - tokens) / span_s

    def _draw(self) -> None:
        if self._live is None:
            self._rewrite(one_line(", ".join(self._facts()), max(_NARROWEST, _width(self._out) - _ECHO)))
            return
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress, width = self._now(), max(_NARROWEST, self._live.console.width - _ECHO)
        rows = Table.grid()
        if self._total is not None:
            rows.add_row(ProgressBar(total=max(1, self._total), completed=progress.done, width=width))
        for row in fitted(self._facts(), width):
            rows.add_row(Text(row, no_wrap=True))
        self._live.update(rows, refresh=True)

    def _rewrite(self, line: str) -> None:
        """Replaces the row of the cursor."""
        self._out.write(f"\r\x1b[K{line}")
        self._out.flush()

    def _print(self, line: str) -> None:
        print(line, file=self._out, flush=True)


def _width(out: TextIO) -> int:
    """Columns of the terminal behind a stream; standard output may be a file at the same time."""
    try:
        return os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def _live(out: TextIO, *, color: bool) -> Any:
    """rich's display; None without rich."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        return None
    # None: rich follows NO_COLOR.
    console = Console(file=out, no_color=None if color else True)
    live = Live(console=console, auto_refresh=False, transient=True)
    live.start()
    return live


def figures(progress: MapProgress, total: int | None, rows_per_s: float, tokens_per_s: float) -> list[str]:
    """The figures, the most important first."""
    done = progress.done
    share = f" ({100 * done // total} %)" if total else ""
    facts = [f"{done:,}/{total:,} rows{share}" if total is not None else f"{done:,} rows"]
    if rows_per_s > 0:
        facts.append(f"{_round(rows_per_s)} rows/s")
        if total is not None and done < total:
            facts.append(f"{duration((total - done) / rows_per_s)} left")
    if tokens_per_s > 0:
        facts.append(f"{_round(tokens_per_s)} tokens/s")
    if progress.cost:
        facts.append(amount(progress.cost))
    if progress.concurrency:
        facts.append(f"{progress.under_way} of {progress.concurrency} at once")
    elif progress.under_way:
        facts.append(f"{progress.under_way:,} at the vendor")
    if progress.failed:
        facts.append(failures(progress))
    if progress.paused_s > 1:
        facts.append(f"waiting {progress.paused_s:.0f} s: the vendor refuses requests")
    elif progress.refused:
        facts.append(f"refused {progress.refused:,} times")
    return facts


def failures(progress: MapProgress) -> str:
    """How many rows failed, by error code."""
    by_code = ", ".join(f"{code} {count:,}" for code, count in progress.failed.most_common())
    return f"{progress.failed.total():,} failed ({by_code})"


def fitted(facts: list[str], width: int) -> list[str]:
    """The facts in rows of at most that many characters; a fact is not broken, a longer one is cut."""
    rows: list[str] = []
    for fact in facts:
        if rows and len(rows[-1]) + 2 + len(fact) <= width:
            rows[-1] += f", {fact}"
        else:
            rows.append(one_line(fact, width))
    return rows


def amount(dollars: float) -> str:
    """An amount of money: "$0.0012", "$12.34"."""
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.2g}" if dollars < 0.01 else f"${dollars:.3f}"


def duration(seconds: float) -> str:
    """A time: "12 s", "3:20", "2:03:20"."""
    total_s = round(seconds)
    minutes, rest = divmod(total_s, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def _round(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


# Estimates requests and cost in a pass over the input before the first request.


# Usual for English; the estimate is shown as one.
_CHARS_PER_TOKEN: Final = 4
# Assumed length of an unknown answer: a paragraph.
_ANSWER_TOKENS: Final = 200

_SHOWN_CHARS: Final = 300


@dataclass
class Survey:
    """The content of an input.

    bad:     rows that will fail: they cannot be read, or lack a column of the prompt
    chars:   of all prompts
    columns: of all rows, in the order of their first appearance
    first:   the first prompt
    """

    rows: int = 0
    bad: int = 0
    chars: int = 0
    columns: dict[str, None] = field(default_factory=dict)
    first: str = ""
    problem: str = ""

    def cost(
        self, price: Price | None, model: str, *, share: float, overhead: int, answer: int
    ) -> float | None:
        """The estimated cost of a share of the rows; None if there is no price.

        overhead: characters of each request beside its prompt
        answer:   tokens of each answer
        """
        rows = (self.rows - self.bad) * share
        if price is None or rows <= 0:
            return None
        # Prices may depend on the length of a request, so the average one is priced.
        tokens = Usage(max(1, round((self.chars / max(1, self.rows) + overhead) / _CHARS_PER_TOKEN)), answer)
        each = price(model, tokens)
        return None if each is None else each * rows


def surveyed(rows: Iterator[Row], prompt_of: Callable[[Any], Prompt]) -> Survey:
    """Reads an input to its end."""
    found = Survey()
    for row in rows:
        found.rows += 1
        try:
            if not isinstance(row, BadRow):
                found.columns.update(dict.fromkeys(row))
            text = _text(prompt_of(row))
        except LLMStreamError as error:
            found.bad += 1
            found.problem = found.problem or error.message
            continue
        found.chars += len(text)
        found.first = found.first or text
    return found


def _about(number: int) -> str:
    """A number with three digits that count."""
    return f"{float(f'{number:.3g}'):,.0f}"


def _text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(m.text for m in as_messages(prompt))


def answer_tokens(max_tokens: int | None) -> int:
    """The assumed tokens of an answer."""
    return min(_ANSWER_TOKENS, max_tokens or _ANSWER_TOKENS)


def estimate_lines(
    survey: Survey, model: str, *, stored: int, overhead: int, answer: int, cost: float | None
) -> list[str]:
    """The estimate, for people.

    stored: rows of the existing output
    """
    left = max(0, survey.rows - stored)
    tokens = round(left * (survey.chars / max(1, survey.rows) + overhead) / _CHARS_PER_TOKEN)
    lines = [counted(survey.rows, "row") + (f", {stored:,} of them already in the output" if stored else "")]
    if survey.bad:
        lines.append(f"{counted(survey.bad, 'row')} will fail: {one_line(survey.problem, 200)}")
    lines.append(
        f"about {_about(tokens)} tokens of input, and {_about(left * answer)} of output at {answer} an answer"
    )
    if cost is None:
        lines.append(f"no price of {model} is known")
    else:
        lines.append(f"about {amount(cost)} with {model}")
    if survey.first:
        lines.append(f"the first prompt: {one_line(survey.first, _SHOWN_CHARS)}")
    return lines
