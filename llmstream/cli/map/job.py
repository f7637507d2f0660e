"""One run of `llmstream map`: the output, signals, the summary and the exit status."""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import msgspec

from llmstream.batches.apis import BatchApi, api_of
from llmstream.batches.batch_map import BatchMap, MapPlan
from llmstream.cli.errors import FAILED, INTERRUPTED, SUCCESS, USAGE, error_message, exit_status
from llmstream.cli.keys import api_key_for
from llmstream.cli.map.progress import Display, Survey, amount, duration, failures
from llmstream.cli.map.rows import BadRow, Source, in_background
from llmstream.cli.terminal import on_signals, print_message, uncancel, write_bytes
from llmstream.errors import (
    ConnectionFailed,
    InvalidRequest,
    LimitExceeded,
    LLMStreamError,
    PermissionDenied,
    RateLimited,
)
from llmstream.mapping.asking import Price
from llmstream.mapping.keep import KeepFailed
from llmstream.mapping.lines import CSVLines, JSONLines, Lines, fields_of, records
from llmstream.mapping.options import identity_of, list_prices, make, open_keep
from llmstream.mapping.result import MapProgress
from llmstream.mapping.row import PromptOf, prompt_function
from llmstream.mapping.run import MapRun
from llmstream.short_forms import counted
from llmstream.streams.attempts import Retry
from llmstream.streams.model import Model
from llmstream.streams.options import Options
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.limiter import RateLimiter

__all__ = ["PAUSED", "Job", "execute"]

PAUSED: Final = 75
"""EX_TEMPFAIL of sysexits.h: run it again later, and it continues."""

# If a vendor refuses all requests for longer, it has an outage, or the quota is used up.
_PATIENCE_S: Final = 600.0
# HTTP: the balance at the vendor is used up, and can be filled.
_PAYMENT_REQUIRED: Final = 402
_ANSWER: Final = "answer"


@dataclass
class Job:
    """The inputs of a run of the command."""

    source: Source
    spec: str
    template: str | None
    schema: dict[str, Any] | None
    options: dict[str, Any]
    arguments: argparse.Namespace

    @property
    def path(self) -> str | None:
        """The output file that is a checkpoint; None for standard output, pipes and devices."""
        output = self.arguments.output
        if output in (None, "-") or (os.path.exists(output) and not os.path.isfile(output)):
            return None
        return cast(str, output)

    @property
    def overhead(self) -> int:
        """Characters of each request beside its prompt."""
        return len(self.arguments.system or "") + (len(json.dumps(self.schema)) if self.schema else 0)

    def price(self) -> Price | None:
        """The list prices, if they are installed."""
        return list_prices()

    def stored_rows(self) -> int:
        """The number of results in the output; opens nothing for writing."""
        if self.path is None or not os.path.exists(self.path):
            return 0
        quoted = self.path.lower().endswith(".csv")
        with open(self.path, "rb") as file:
            # An incomplete last line is from a crash; its row is requested again.
            found = sum(complete for _, complete in records(file, quoted=quoted))
        # CSV has a row of names.
        return max(0, found - quoted)

    def batch_api(self) -> BatchApi:
        """The batch API of the model.

        raises: Unsupported
        """
        return api_of(Model(self.spec).provider)

    def batch_run(self, survey: Survey | None, note: Callable[[str], object]) -> BatchMap:
        """The run by the vendor's batch API, before its first request."""
        arguments, path = self.arguments, self.path
        if path is None:
            raise InvalidRequest("--batch needs a regular file as its output: -o FILE.")
        retry = Retry(max_retries=arguments.retries)
        model = Model(self.spec, base_url=arguments.base_url, api_key=api_key_for(self.spec), retry=retry)
        request = model.request("?", **self.options)
        identity = identity_of(model, self.template or "", request)
        rows = self.source.rows()
        return BatchMap(
            MapPlan(
                model=model,
                items=in_background(rows) if self.source.is_stdin else rows,
                prompt_of=self.prompt_of,
                prompt_id=self.template or "",
                keep=functools.partial(open_keep, path, self.lines(survey), identity, arguments.retry_failed),
                record=f"{path}.batch",
                options=self.options,
                finish_online=arguments.finish_online,
                dedupe=arguments.dedupe,
                price=self.price(),
                sort=arguments.ordered,
                poll_s=arguments.poll,
                note=note,
            )
        )

    def run(self, survey: Survey | None) -> MapRun[Any, Any]:
        """The run, before its first request."""
        arguments = self.arguments
        limiter = None
        if arguments.rpm or arguments.tpm:
            limiter = RateLimiter(requests_per_minute=arguments.rpm, tokens_per_minute=arguments.tpm)
        # Rows may wait for a limit without a timeout; each response has its own deadlines.
        common: dict[str, Any] = {"limiter": limiter, "deadlines": Deadlines(total_s=None)}
        rows = self.source.rows()
        return make(
            Model(self.spec, base_url=arguments.base_url, api_key=api_key_for(self.spec), **common),
            in_background(rows) if self.source.is_stdin else rows,
            options=cast(Options, {**self.options, "retry": Retry(max_retries=arguments.retries)}),
            prompt=self.prompt_of,
            prompt_id=self.template or "",
            concurrency=arguments.concurrency,
            # A file is put in order at the end; a pipe has to wait for each row.
            ordered=arguments.ordered and self.path is None,
            sort=arguments.ordered,
            keep=self.path,
            lines=self.lines(survey),
            retry_failed=arguments.retry_failed,
            fallback=[Model(other, api_key=api_key_for(other), **common) for other in arguments.fallback],
            max_cost=arguments.max_cost,
            dedupe=arguments.dedupe,
            patience_s=_PATIENCE_S,
            show_stored=False,
        )

    def lines(self, survey: Survey | None) -> Lines:
        """The format of the output.

        raises: InvalidRequest for columns that would be there twice
        """
        output = self.arguments.output or ""
        if output.lower().endswith(".csv"):
            if survey is None:
                raise InvalidRequest(
                    "CSV needs all column names first, which are unknown for standard input. Name the "
                    "input file, or write JSON lines: -o FILE.jsonl."
                )
            return CSVLines(list(survey.columns), properties=(self.schema or {}).get("properties", ()))
        clash = next((name for name in (survey.columns if survey else ()) if name == _ANSWER), None)
        if clash is not None:
            raise InvalidRequest(
                f"the input has a column {clash!r}, a name that the output uses itself. Rename it, such as "
                f"with jq: jq -c '.first = .{clash} | del(.{clash})'."
            )
        return JSONLines(_ANSWER)

    def prompt_of(self, row: Any) -> Any:
        """The prompt of a row; without a template of a line of text the line itself."""
        if isinstance(row, BadRow):
            raise InvalidRequest(row.problem)
        if self.template is None and list(row) == ["text"]:
            return row["text"]
        return self._make_prompt(row)

    @functools.cached_property
    def _make_prompt(self) -> PromptOf:
        return prompt_function(self.template)


@dataclass
class Outcome:
    """How a run ended.

    error: that ended it; None if it came to its end or was interrupted
    """

    seconds: float
    progress: MapProgress
    left_over: int = 0
    error: LLMStreamError | None = None
    interrupted: bool = False

    @property
    def status(self) -> int:
        """The exit status."""
        if self.interrupted:
            return INTERRUPTED
        if self.error is None:
            return FAILED if self.progress.failed else SUCCESS
        later = (LimitExceeded, RateLimited, KeepFailed)
        unpaid = isinstance(self.error, PermissionDenied) and self.error.status == _PAYMENT_REQUIRED
        # After answers, the network is at fault; before any, probably the address.
        away = isinstance(self.error, ConnectionFailed) and self.progress.done
        return PAUSED if isinstance(self.error, later) or unpaid or away else exit_status(self.error)


def execute(job: Job, survey: Survey | None) -> int:
    """Runs the job and reports; returns the exit status."""
    outcome = asyncio.run(_execute(job, survey))
    total = None if survey is None else survey.rows
    if outcome.error is not None:
        print_message(error_message(outcome.error))
    if not job.arguments.quiet and outcome.status != USAGE:
        for line in summary_lines(job, outcome, total):
            print_message(line)
    if job.arguments.json:
        write_bytes(msgspec.json.encode(_summary(job, outcome, total)) + b"\n")
    return outcome.status


async def _execute(job: Job, survey: Survey | None) -> Outcome:
    run: MapRun[Any, Any] | BatchMap
    if job.arguments.batch:
        run = job.batch_run(survey, lambda message: display.note(message))
    else:
        run = job.run(survey)
    lines = job.lines(survey)
    began, error, interrupted = time.monotonic(), None, False
    arguments, total = job.arguments, None if survey is None else survey.rows
    display = Display(total, lambda: run.progress, sys.stderr, quiet=arguments.quiet, color=arguments.color)
    signals = _Signals(run, display)
    with _output(job) as out, on_signals(("SIGINT", "SIGTERM", "SIGHUP"), signals):
        try:
            async with display, run:
                async for done in run:
                    if out is not None:
                        out(lines.encode(fields_of(done.item)[0], done, None))
        except LLMStreamError as failure:
            error = failure
        except asyncio.CancelledError:
            # The task was cancelled by other code.
            if not signals.count:
                raise
            uncancel()
    interrupted = signals.count > 0
    return Outcome(time.monotonic() - began, run.progress, run.left_over, error, interrupted)


@contextmanager
def _output(job: Job) -> Iterator[Callable[[bytes], object] | None]:
    """Writes lines to standard output, a pipe or a device; None for a file, which the run itself writes."""
    path = job.arguments.output
    if job.path is not None:
        yield None
    elif path in (None, "-"):
        yield functools.partial(_written, "standard output", write_bytes)
    else:
        with _device(path) as file:
            yield functools.partial(_written, path, file.write)


def _written(name: str, write: Callable[[bytes], object], line: bytes) -> None:
    """raises: KeepFailed; BrokenPipeError without a reader"""
    try:
        write(line)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise KeepFailed(f"cannot write to {name}: {error.strerror or error}.") from error


def _device(path: str) -> BinaryIO:
    try:
        # Unbuffered: each answer reaches the reader at once.
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}. Check the path.") from None


class _Signals:
    """Ctrl-C and SIGTERM: the first one starts no more requests, the second one ends those in progress."""

    def __init__(self, run: MapRun[Any, Any] | BatchMap, display: Display) -> None:
        self.count = 0
        self._run = run
        self._display = display
        self._task = asyncio.current_task()

    def __call__(self) -> None:
        self.count += 1
        if self.count > 1 and self._task is not None:
            self._task.cancel()
            return
        self._run.stop()
        under_way = self._run.progress.under_way
        if under_way and isinstance(self._run, MapRun):
            requests = counted(under_way, "request")
            self._display.note(f"waiting for {requests} in progress; Ctrl-C again drops them")


def summary_lines(job: Job, outcome: Outcome, total: int | None) -> Iterator[str]:
    """The end of a run, for people."""
    progress = outcome.progress
    asked = progress.done - progress.stored
    unfinished = total is not None and progress.done < total
    rows = f"{progress.done:,} of {total:,} rows" if unfinished else counted(progress.done, "row")
    facts = [rows + (f", {asked:,} of them in this run" if progress.stored else "")]
    if progress.failed:
        facts.append(failures(progress))
    if progress.usage.total_tokens:
        facts.append(f"{progress.usage.total_tokens:,} tokens")
    if progress.cost:
        facts.append(amount(progress.cost))
    facts.append(duration(outcome.seconds))
    yield ", ".join(facts) + (f"; {job.path}" if job.path else "")
    if outcome.left_over > 0 and outcome.error is None and not outcome.interrupted:
        lines = counted(outcome.left_over, "line")
        yield f"{lines} of {job.path} belong to rows that are not in the input"
    if outcome.status in (INTERRUPTED, PAUSED):
        yield _remedy(job, outcome)
    elif progress.failed and job.path is not None:
        yield "--retry-failed sends the failed rows again"


def _remedy(job: Job, outcome: Outcome) -> str:
    if job.path is None:
        return "the answers so far are written. With -o FILE, the same command continues where it stopped"
    if job.arguments.batch:
        return f"to continue, run the same command again: {job.path}.batch has what is submitted"
    first = ""
    if isinstance(outcome.error, LimitExceeded):
        first = "raise --max-cost and "
    return f"to continue, {first}run the same command again: {job.path} has what is done"


def _summary(job: Job, outcome: Outcome, total: int | None) -> dict[str, Any]:
    """The end of a run, for programs."""
    progress = outcome.progress
    names = {SUCCESS: "complete", PAUSED: "paused", INTERRUPTED: "interrupted"}
    ended = outcome.error is None and not outcome.interrupted
    return {
        "status": "complete" if ended else names.get(outcome.status, "failed"),
        "rows": total,
        "done": progress.done,
        "stored": progress.stored,
        "reused": progress.reused,
        "failed": dict(progress.failed),
        "usage": progress.usage,
        "cost": progress.cost,
        "seconds": round(outcome.seconds, 3),
        "refused": progress.refused,
        "output": job.path,
        "error": None if outcome.error is None else outcome.error.info,
    }
