"""`llmstream bench`: measures the latency and throughput of an endpoint under load.

`load.py` sends the requests and measures them, `report.py` holds the results and shows them as a table and
as a plot.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import stat
import sys
import time
from functools import partial
from typing import Any, Final

from llmstream import Model, Retry
from llmstream.cli.arguments import number
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
from llmstream.cli.bench.report import (
    Load,
    Report,
    Sample,
    comparison_lines,
    read_report,
    report_lines,
    report_of,
    svg,
)
from llmstream.cli.config import MODEL_HELP, checked_model, default_model
from llmstream.cli.errors import FAILED, INTERRUPTED, SUCCESS
from llmstream.cli.keys import api_key_for
from llmstream.cli.terminal import on_signals, print_message, typed, uncancel
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.exchange import public_address

__all__ = ["check_writable", "configure", "run", "write_text"]

# Above any useful measurement; larger numbers would exhaust memory before the first request.
_MAX_REQUESTS: Final = 1_000_000
_MAX_CONCURRENCY: Final = 10_000
_MAX_TOKENS: Final = 1_000_000

_PROMPT: Final = "Tell me in three sentences why the sky is blue."

_EPILOG: Final = """\
With -c, a fixed number of requests is in flight. With --rate, requests arrive at random (a Poisson
process) even if the server cannot keep up, and latency counts from when a request was due, so a
slow server does not reduce its own load. Failed requests are counted by error code and not
retried. Ctrl-C stops the run and reports the finished requests.

The table shows the time to the first event, to the first token, between tokens, and to the end.
Tokens of one network read are 0 s apart. The overhead lines show how busy this process was: a
busy process reads late, so its times are too long.

exit status: 0 success, 2 usage error, 3 all requests failed, 130 interrupted (Ctrl-C),
141 the reader of the pipe closed it

examples:
  llmstream bench -m sim:demo                                 no key, no network
  llmstream bench -m openai:gpt-5-mini -n 100 -c 16 --max-tokens 200
  llmstream bench -m ollama:llama3.2 -n 60 --rate 2/s --json before.json
  llmstream bench -m ollama:llama3.2 -n 60 --rate 2/s --compare before.json
  llmstream bench --compare before.json after.json            compare two saved runs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("-m", "--model", metavar="PROVIDER:MODEL", help=MODEL_HELP)
    requests, concurrency, tokens = (
        number(1, _MAX_REQUESTS),
        number(1, _MAX_CONCURRENCY),
        number(1, _MAX_TOKENS),
    )
    add("-n", "--requests", type=requests, default=50, metavar="N", help="number of requests (default: 50)")
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "-c",
        "--concurrency",
        type=concurrency,
        default=8,
        metavar="N",
        help="requests in flight (default: 8)",
    )
    load.add_argument(
        "--rate", type=_rate, metavar="N/s", help="random arrivals, N per second; N/m is per minute"
    )
    warmup = number(0, _MAX_REQUESTS)
    add("--warmup", type=warmup, default=2, metavar="N", help="requests before the measurement (default: 2)")
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", default=_PROMPT, help="prompt of all requests")
    prompt.add_argument("--prompts", metavar="FILE", help="file of prompts, one per line, used in turn")
    prompt.add_argument(
        "--prompt-tokens",
        type=tokens,
        metavar="N",
        help="unique synthetic prompts of about N tokens",
    )
    add("--max-tokens", type=tokens, metavar="N", help="maximum length of an answer, in tokens")
    add(
        "--seed", type=int, default=0, metavar="N", help="seed of arrivals and synthetic prompts (default: 0)"
    )
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")
    add(
        "--json",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write the report as JSON; without FILE, to standard output",
    )
    add("-q", "--quiet", action="store_true", help="no progress and no table")
    add("--svg", metavar="FILE", help="write a plot of the times to first token and to the end")
    add(
        "--compare",
        nargs="+",
        metavar="FILE",
        help="compare with a report of --json; with two files, compare them and send no requests",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measures and reports; returns the exit status."""
    earlier = [read_report(path) for path in arguments.compare or ()]
    if len(earlier) > 2:
        raise InvalidRequest("--compare takes one report, or two: the earlier and the later one")
    later = earlier.pop() if len(earlier) == 2 else None
    if arguments.json and arguments.svg and _same_file(arguments.json, arguments.svg):
        raise InvalidRequest(f"--json and --svg both name {arguments.svg}: one would overwrite the other")
    for path in (arguments.json, arguments.svg):
        check_writable(path)
    return _output(later or _measured(arguments), earlier[0] if earlier else None, arguments)


def _measured(arguments: argparse.Namespace) -> Report:
    spec = arguments.model or default_model()
    if not spec:
        raise InvalidRequest(
            "no model given. Pass -m provider:model, or choose one with `llmstream models default`. "
            "-m sim:demo needs no key."
        )
    return asyncio.run(_bench(spec, arguments))


def _output(report: Report, other: Report | None, arguments: argparse.Namespace) -> int:
    """Prints the report and writes the requested files; returns the exit status."""
    # Standard output has only the JSON.
    out = sys.stderr if arguments.json == "-" else sys.stdout
    lines = [*report_lines(report), *(comparison_lines(other, report) if other else ())]
    if not arguments.quiet:
        print("\n".join(lines), file=out, flush=True)
    if arguments.json:
        write_text(arguments.json, report.to_json().decode())
    if arguments.svg:
        write_text(arguments.svg, svg(report, other))
    if report.unfinished:
        print_message("stopped; the report has the finished requests")
        return INTERRUPTED
    return SUCCESS if report.completed else FAILED


async def _bench(spec: str, arguments: argparse.Namespace) -> Report:
    """Runs the warm-up and the measurement. A cancellation ends it early with a report."""
    model = Model(
        checked_model(spec),
        base_url=arguments.base_url,
        api_key=api_key_for(spec),
        # A repeated request would hide a failure, and count its wait as latency.
        retry=Retry(max_retries=0),
    )
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
    task = asyncio.current_task()
    assert task is not None
    # SIGTERM and SIGHUP end the run with a report, as Ctrl-C does.
    ended = on_signals(("SIGTERM", "SIGHUP"), task.cancel)
    with Progress(load.requests, shown=not arguments.quiet) as progress, ended:
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
            uncancel()
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
    try:
        return public_address(model.provider.address(model.base_url))
    # A simulator gets its address from the system later.
    except LLMStreamError:
        return None


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


def _rate(text: str) -> float:
    """Parses a rate: "5", "5/s" or "300/m"; returns requests per second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m))?", text.strip())
    rate = float(found[1]) / (60 if found[2] == "m" else 1) if found else 0.0
    if rate <= 0:
        raise argparse.ArgumentTypeError(f"a rate has the form 5/s or 300/m, not {text!r}")
    return rate


# Writes the files of a benchmark: in one step, and never through a symbolic link.


def check_writable(path: str | None) -> None:
    """Checks that a file can be written, before any request is sent.

    raises: InvalidRequest if it cannot
    """
    if not path or path == "-":
        return
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise InvalidRequest(f"cannot write {path}: the folder does not exist")
    # Anyone with write access to the folder could redirect the write by a link.
    if os.path.islink(path) and not _is_stream(path):
        raise InvalidRequest(
            f"cannot write {path}: it is a symbolic link. Name the file itself, or - for standard output."
        )
    if os.path.isdir(path):
        raise InvalidRequest(f"cannot write {path}: it is a folder")


def write_text(path: str, text: str) -> None:
    """Writes a text to a file in one step, or to standard output for "-".

    raises: InvalidRequest if that fails
    """
    if path == "-":
        sys.stdout.write(text)
        return
    check_writable(path)
    try:
        if _is_stream(path):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        else:
            _replace(path, text)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}") from None


def _is_stream(path: str) -> bool:
    """Whether the path is a pipe or device, such as /dev/stdout, which holds nothing to overwrite."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(path: str, text: str) -> None:
    temporary = os.path.join(os.path.dirname(os.path.abspath(path)), f".{os.urandom(8).hex()}.tmp")
    try:
        # A new file gets the default mode.
        with open(temporary, "x", encoding="utf-8") as out:
            out.write(text)
        if os.path.exists(path):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    # Also on Ctrl-C: leave no temporary file.
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
