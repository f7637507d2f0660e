"""`llmstream check`: asks an endpoint questions and shows what it can do and where its wire is wrong."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from types import TracebackType
from typing import Any, Final, Self, TextIO

import msgspec

from llmstream import Model
from llmstream.cli.arguments import number
from llmstream.cli.check_table import finding_lines, summary_lines, table_lines
from llmstream.cli.config import MODEL_HELP, default_model
from llmstream.cli.errors import FAILED, INTERRUPTED, SUCCESS
from llmstream.cli.key_store import api_key_for
from llmstream.cli.model_names import checked_model
from llmstream.cli.terminal import listed, print_message
from llmstream.endpoint_check.endpoint import in_process
from llmstream.endpoint_check.report import CheckReport, Finding
from llmstream.endpoint_check.runner import (
    DEFAULT_ATTEMPTS,
    DEFAULT_MAX_TOKENS,
    PROBES,
    Bound,
    bound_of,
    check_endpoint,
    chosen,
)
from llmstream.errors import InvalidRequest

__all__ = ["configure", "run"]

_EPILOG: Final = """\
Each probe asks a plain question and looks at the bytes of the response. "broken" is a wire that gives
wrong data or a wrong error; "degraded" works, but a program notices; "unsupported" is refused openly;
"inconclusive" means that the model chose otherwise, so nothing was seen.

The most that a check may send and cost is named before it starts; on a terminal it asks whether to start.
A response has at most --max-tokens tokens (4,096 with reasoning), most have far fewer.

exit status: 0 nothing is broken, 2 usage error, 3 something is broken, 130 declined or interrupted
(Ctrl-C), 141 the reader of the pipe closed it

examples:
  llmstream check -m sim:probe                                no key, no network
  llmstream check -m vllm:Qwen/Qwen3-8B --base-url http://localhost:8000
  llmstream check -m ollama:llama3.2 --json > report.json
  llmstream check -m anthropic:claude-haiku-4-5 --only tools,tool-parallel
  llmstream check --list                                      the probes
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("-m", "--model", metavar="PROVIDER:MODEL", help=MODEL_HELP)
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")
    add("--only", action="append", default=[], metavar="PROBE,...", help="run these probes alone")
    add("--list", action="store_true", help="list the probes and exit")
    add(
        "--max-tokens",
        type=number(32, 100_000),
        default=DEFAULT_MAX_TOKENS,
        metavar="N",
        help=f"limit of a response, reasoning included (default: {DEFAULT_MAX_TOKENS})",
    )
    add(
        "--attempts",
        type=number(1, 10),
        default=DEFAULT_ATTEMPTS,
        metavar="N",
        help=f"how often a question is asked if the answer shows nothing (default: {DEFAULT_ATTEMPTS})",
    )
    add(
        "-c",
        "--concurrency",
        type=number(1, 64),
        default=1,
        metavar="N",
        help="probes at a time (default: 1)",
    )
    add("--json", action="store_true", help="print the report, or with --list the probes, as JSON")
    add("-q", "--quiet", action="store_true", help="print only findings to act on, nothing if there are none")
    add("-y", "--yes", action="store_true", help="start without asking")


def run(arguments: argparse.Namespace) -> int:
    """Checks and reports; returns the exit status."""
    if arguments.list:
        _print_probes(as_json=arguments.json)
        return SUCCESS
    spec = checked_model(_spec(arguments))
    probes = chosen(arguments.only)
    model = Model(spec, base_url=arguments.base_url, api_key=api_key_for(spec))
    bound = bound_of(spec, probes, max_tokens=arguments.max_tokens, attempts=arguments.attempts)
    free = in_process(model)
    if not _agreed(_cost(bound, free=free), ask=not (arguments.yes or free), quiet=arguments.quiet):
        return INTERRUPTED
    with ProgressLine(len(probes), shown=not arguments.quiet) as progress:
        checking = check_endpoint(
            model,
            only=arguments.only,
            max_tokens=arguments.max_tokens,
            attempts=arguments.attempts,
            concurrency=arguments.concurrency,
            progress=progress.note,
        )
        try:
            report = asyncio.run(checking)
        except KeyboardInterrupt:
            report = None
    if report is None:
        return _stopped(model, progress.findings, arguments)
    _print(report, arguments)
    return FAILED if report.broken else SUCCESS


def _print_probes(*, as_json: bool) -> None:
    if as_json:
        probes = [{"name": probe.name, "title": probe.title} for probe in PROBES]
        print(msgspec.json.format(msgspec.json.encode(probes), indent=2).decode())
    else:
        print("\n".join(listed([(probe.name, probe.title) for probe in PROBES])))


def _spec(arguments: argparse.Namespace) -> str:
    spec: str = arguments.model or default_model()
    if not spec:
        raise InvalidRequest(
            "no model given. Pass -m provider:model, or choose one with `llmstream models default`. "
            "-m sim:probe needs no key."
        )
    return spec


def _cost(bound: Bound, *, free: bool) -> str:
    """The bound of a check, for people."""
    price = "price unknown" if bound.dollars is None else f"${bound.dollars:.2f}"
    cost = "no cost" if free else price
    return f"at most {bound.requests} requests with {bound.output_tokens:,} output tokens ({cost})"


def _agreed(cost: str, *, ask: bool, quiet: bool) -> bool:
    """Names the cost, and asks on a terminal whether to go on."""
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    # The question goes to standard error, because the report may be piped.
    if not (ask and terminal):
        if not quiet:
            print_message(cost)
        return True
    print(f"llmstream: {cost}. Start? [Y/n] ", end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


def _stopped(model: Model[Any], findings: list[Finding], arguments: argparse.Namespace) -> int:
    """Shows the findings of the probes that had ended before Ctrl-C."""
    if findings and not arguments.json:
        for line in finding_lines(findings, quiet=arguments.quiet, colour=_coloured()):
            print(line)
    print_message(f"stopped after {len(findings)} findings about {model.provider.name}:{model.name}")
    return INTERRUPTED


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _print(report: CheckReport, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(report.to_json().decode())
        return
    lines = list(table_lines(report, quiet=arguments.quiet, colour=_coloured()))
    if not arguments.quiet:
        lines += summary_lines(report)
    if lines:
        print("\n".join(lines))


class ProgressLine:
    """Names the running probe on a line of a terminal that the next one overwrites.

    findings: of the probes that have ended
    """

    def __init__(self, total: int, *, shown: bool, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stderr
        self._shown = shown and self._out.isatty()
        self._total, self._done = total, 0
        self.findings: list[Finding] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def note(self, name: str, findings: tuple[Finding, ...] | None) -> None:
        """A probe starts, or has ended."""
        if findings is not None:
            self._done += 1
            self.findings += findings
        else:
            self._write(f"[{self._done + 1}/{self._total}] {name}")

    def _write(self, text: str) -> None:
        if self._shown:
            self._out.write(f"\r\x1b[K{text}")
            self._out.flush()
