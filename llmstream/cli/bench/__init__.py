"""`llmstream bench`: how fast an endpoint answers under load."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from llmstream import Model, Retry
from llmstream.cli.bench.files import check_writable, write_text
from llmstream.cli.bench.load import (
    Progress,
    PromptOf,
    Watch,
    arrivals,
    closed_loop,
    lines_of,
    made_prompt,
    measure,
    open_loop,
)
from llmstream.cli.bench.report import Load, Report, Sample, read_report, report_of
from llmstream.cli.bench.views import comparison_lines, report_lines, svg
from llmstream.cli.errors import FAILED, FINE, INTERRUPTED
from llmstream.cli.model_names import checked_model
from llmstream.cli.terminal import complain, typed
from llmstream.errors import InvalidRequest, LLMStreamError

__all__ = ["configure", "run"]

_MOST_REQUESTS: Final = 1_000_000
_MOST_AT_A_TIME: Final = 10_000
_MOST_TOKENS: Final = 1_000_000
"""More than anyone measures; what is made of larger numbers takes all memory before anyone is asked."""

_PROMPT: Final = "Tell me in three sentences why the sky is blue."

_EPILOG: Final = """\
With -c a fixed number of requests is in flight. With --rate they arrive at random (a Poisson
process) whether or not the server keeps up, and times count from when a request was due, so
that a slow server is not flattered. Failed requests are not sent again; they are counted by
the code of their error. Ctrl-C ends it and reports what came.

The table has times to the first event and the first token, between neighbouring tokens, and
to the end. Fragments that the network brought together are no time apart. The last lines say
what the measurement itself took: a busy process reads late, so its times are too long.

exit status: 0 fine, 2 wrong usage, 3 all requests failed, 130 stopped with Ctrl-C

examples:
  llmstream bench -m sim:demo                                 no key, no network
  llmstream bench -m openai:gpt-5-mini -n 100 -c 16 --max-tokens 200
  llmstream bench -m ollama:llama3.2 -n 60 --rate 2/s --json before.json
  llmstream bench -m ollama:llama3.2 -n 60 --rate 2/s --compare before.json
  llmstream bench --compare before.json after.json            two runs that are saved
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("-m", "--model", metavar="PROVIDER:MODEL", help="the model to ask; by default $LLMSTREAM_MODEL")
    requests, at_a_time, tokens = (
        _number(1, _MOST_REQUESTS),
        _number(1, _MOST_AT_A_TIME),
        _number(1, _MOST_TOKENS),
    )
    add("-n", "--requests", type=requests, default=50, metavar="N", help="number of requests (50)")
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "-c", "--concurrency", type=at_a_time, default=8, metavar="N", help="requests in flight (8)"
    )
    load.add_argument(
        "--rate", type=_rate, metavar="N/s", help="requests per second, at random; N/m is per minute"
    )
    warmup = _number(0, _MOST_REQUESTS)
    add("--warmup", type=warmup, default=2, metavar="N", help="requests before the measurement (2)")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--prompt", metavar="TEXT", default=_PROMPT, help="what to ask")
    asked.add_argument("--prompts", metavar="FILE", help="prompts, one a line, taken in turns")
    asked.add_argument(
        "--prompt-tokens",
        type=tokens,
        metavar="N",
        help="unique synthetic prompts of about N tokens",
    )
    add("--max-tokens", type=tokens, metavar="N", help="maximum length of an answer, in tokens")
    add("--seed", type=int, default=0, metavar="N", help="of arrivals and synthetic prompts (0)")
    add("--base-url", metavar="URL", help="another address, where the vendor's paths begin")
    add("--json", metavar="FILE", help="write the report as JSON; - is standard output")
    add("--svg", metavar="FILE", help="write a plot of first token and end to end")
    add(
        "--compare",
        nargs="+",
        metavar="FILE",
        help="a report of --json to compare with; with two files no requests are sent",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measures and reports; 3 where every request failed."""
    earlier = [read_report(path) for path in arguments.compare or ()]
    if len(earlier) > 2:
        raise InvalidRequest("--compare takes one report, or two of which the second is the later one")
    later = earlier.pop() if len(earlier) == 2 else None
    if arguments.json and arguments.svg and _same_file(arguments.json, arguments.svg):
        raise InvalidRequest(f"--json and --svg both name {arguments.svg}: one would overwrite the other")
    for path in (arguments.json, arguments.svg):
        check_writable(path)
    return _tell(later or _measured(arguments), earlier[0] if earlier else None, arguments)


def _measured(arguments: argparse.Namespace) -> Report:
    """The report of a run that is made now."""
    spec = arguments.model or os.environ.get("LLMSTREAM_MODEL") or ""
    if not spec:
        raise InvalidRequest(
            "no model: pass -m provider:model or set LLMSTREAM_MODEL. -m sim:demo needs no key."
        )
    return asyncio.run(_bench(spec, arguments))


def _tell(report: Report, other: Report | None, arguments: argparse.Namespace) -> int:
    """Prints and writes what was asked for; the exit status."""
    told = sys.stderr if arguments.json == "-" else sys.stdout
    lines = [*report_lines(report), *(comparison_lines(other, report) if other else ())]
    print("\n".join(lines), file=told, flush=True)
    if arguments.json:
        write_text(arguments.json, report.to_json().decode())
    if arguments.svg:
        write_text(arguments.svg, svg(report, other))
    if report.unfinished:
        complain("stopped; what came is reported")
        return INTERRUPTED
    return FINE if report.completed else FAILED


async def _bench(spec: str, arguments: argparse.Namespace) -> Report:
    """The whole run. A cancellation ends it early, and what came by then is reported."""
    model = Model(checked_model(spec), base_url=arguments.base_url, retry=Retry(max_retries=0))
    load = Load(
        model=spec,
        requests=arguments.requests,
        concurrency=None if arguments.rate else arguments.concurrency,
        rate_per_s=arguments.rate,
        warmup=arguments.warmup,
        prompt_tokens=arguments.prompt_tokens,
        max_tokens=arguments.max_tokens,
        seed=arguments.seed,
    )
    options: dict[str, Any] = {"max_output_tokens": load.max_tokens} if load.max_tokens else {}
    prompt_of = _prompts(arguments)
    samples: list[Sample] = []
    with Progress(load.requests) as progress, _ended_by_signals():
        began = time.perf_counter()
        watch = Watch()
        try:
            for number in range(-load.warmup, 0):
                due = time.perf_counter()
                await measure(model, prompt_of(number), Sample(number=number), due=due, **options)
            began = time.perf_counter()

            async def one(number: int, due: float) -> None:
                sample = Sample(number=number, due_s=due - began)
                await measure(model, prompt_of(number), sample, due=due, **options)
                samples.append(sample)
                progress.advance(failed=sample.error is not None)

            async with watch:
                if load.rate_per_s:
                    await open_loop(one, arrivals(load.requests, load.rate_per_s, load.seed))
                else:
                    await closed_loop(one, load.requests, arguments.concurrency)
        except asyncio.CancelledError:
            _stay()
        wall_s = time.perf_counter() - began
    return report_of(
        load,
        samples,
        wall_s=wall_s,
        unfinished=load.requests - len(samples),
        overhead=watch.overhead,
        address=_address(model),
    )


def _address(model: Model) -> str | None:
    """Where its requests go, without what may be secret in a query."""
    try:
        url = urlsplit(model.provider.address(model.base_url))
    except LLMStreamError:  # such as a simulator, which has its address from the system
        return None
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end the run as Ctrl-C does, with a report of what came."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    handled = []
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows knows one of them, and no handlers of loops
        if number is None or task is None or signal.getsignal(number) is signal.SIG_IGN:  # as under nohup
            continue
        with suppress(NotImplementedError, RuntimeError, ValueError):  # ValueError: not the main thread
            loop.add_signal_handler(number, task.cancel)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _stay() -> None:
    """Ctrl-C has been heard, and there is still something to do."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


def _prompts(arguments: argparse.Namespace) -> PromptOf:
    if arguments.prompts:
        lines = lines_of(arguments.prompts)
        return lambda number: lines[number % len(lines)]
    if arguments.prompt_tokens:
        return partial(made_prompt, tokens=arguments.prompt_tokens, seed=arguments.seed)
    text = typed(arguments.prompt)
    return lambda number: text


def _same_file(one: str, other: str) -> bool:
    return one != "-" and os.path.realpath(one) == os.path.realpath(other)


def _number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"a number from {least} to {most}, not {text[:20]}")
        return value

    return number


def _rate(text: str) -> float:
    """Requests a second, from "5", "5/s" or "300/m"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m))?", text.strip())
    rate = float(found[1]) / (60 if found[2] == "m" else 1) if found else 0.0
    if rate <= 0:
        raise argparse.ArgumentTypeError(f"a rate is written 5/s or 300/m, not {text!r}")
    return rate
