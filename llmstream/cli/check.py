"""`llmstream check`: the capabilities of an endpoint and faults of its wire, shown by test requests."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, TextIO

import msgspec

from llmstream import Model
from llmstream.cli.arguments import number
from llmstream.cli.config import MODEL_HELP, checked_model, default_model
from llmstream.cli.errors import FAILED, INTERRUPTED, SUCCESS, with_flags
from llmstream.cli.keys import api_key_for
from llmstream.cli.terminal import columns, listed, print_message
from llmstream.display.terminal_text import one_line
from llmstream.endpoint_check.endpoint import in_process
from llmstream.endpoint_check.report import STATUSES, CheckReport, Finding, Status
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

__all__ = ["configure", "finding_lines", "run", "summary_lines", "table_lines"]

_EPILOG: Final = """\
Each probe asks a plain question and looks at the bytes of the response. "broken" is a wire that gives
wrong data or a wrong error; "degraded" works, but a program notices; "unsupported" is refused openly;
"inconclusive" means that the model chose otherwise, so the response shows nothing.

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
        help=f"how often a request is sent if the answer is inconclusive (default: {DEFAULT_ATTEMPTS})",
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
    """Prints the cost, and asks on a terminal whether to continue."""
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
    """Shows the running probe on a terminal line that the next one overwrites.

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


# Shows the report of `llmstream check` as a table, with what to do about each finding.


# SGR of ECMA-48: bold red, yellow, green, dim.
_COLOURS: Final[dict[Status, str]] = {
    "broken": "1;31",
    "degraded": "33",
    "ok": "32",
    "unsupported": "2",
    "inconclusive": "2",
    "skipped": "2",
}
# The longest name of a probe, and two spaces.
_PROBE: Final = 16
_STATUS: Final = max(map(len, STATUSES)) + 2
# Below this width, the text is under the probe instead of beside it.
_NARROW: Final = 72
_DETAIL_CHARS: Final = 600
# More probes that were skipped for the same reason share a row.
_MAX_SKIPPED: Final = 3


def table_lines(report: CheckReport, *, quiet: bool = False, colour: bool = False) -> Iterator[str]:
    """A row for each finding, in the order of the probes.

    quiet:  only findings to act on
    colour: of the status
    """
    if not quiet:
        where = f" at {one_line(report.address, 200)}" if report.address else ""
        yield from _wrapped(f"{one_line(report.model, 200)} ({report.dialect}){where}", "", "  ")
        yield ""
    yield from finding_lines(report.findings, quiet=quiet, colour=colour)


def finding_lines(findings: Sequence[Finding], *, quiet: bool = False, colour: bool = False) -> Iterator[str]:
    """The rows alone; see `table_lines`."""
    for finding in _grouped(findings):
        if not (quiet and finding.status in ("ok", "skipped")):
            yield from _row(finding, colour)


def _grouped(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those that were skipped for one reason as a single row."""
    skipped = Counter(finding.detail for finding in findings if finding.status == "skipped")
    shown = []
    for finding in findings:
        count = skipped[finding.detail] if finding.status == "skipped" else 0
        if count <= _MAX_SKIPPED:
            shown.append(finding)
        # In place of the first of them.
        elif finding.detail not in {row.detail for row in shown}:
            shown.append(msgspec.structs.replace(finding, probe=f"{count} probes"))
    return shown


def _row(finding: Finding, colour: bool) -> Iterator[str]:
    status = f"{finding.status:<{_STATUS}}"
    head = f"{finding.probe:<{_PROBE}}"
    shown = f"{head}\x1b[{_COLOURS[finding.status]}m{status}\x1b[0m" if colour else head + status
    narrow = columns() < _NARROW
    indent = "    " if narrow else " " * (_PROBE + _STATUS)
    first, *others = (_wrapped(text, indent, indent) for text in _texts(finding))
    lines = [*first, *(_dim(line, colour) for other in others for line in other)]
    if narrow:
        yield shown.rstrip()
        yield from lines
        return
    yield (shown + lines[0].strip()).rstrip() if lines else shown.rstrip()
    yield from lines[1:]


def _dim(line: str, colour: bool) -> str:
    return f"\x1b[2m{line}\x1b[0m" if colour else line


def _texts(finding: Finding) -> Iterator[str]:
    """The observation, and for problems the meaning and the remedy."""
    yield with_flags(one_line(finding.detail, _DETAIL_CHARS))
    if finding.status == "ok":
        return
    if finding.meaning:
        yield one_line(finding.meaning, _DETAIL_CHARS)
    if finding.remedy:
        yield f"server: {one_line(finding.remedy, _DETAIL_CHARS)}"
    if finding.quirk is not None:
        yield f"quirk: {one_line(finding.quirk.expression, _DETAIL_CHARS)}"
    if finding.evidence:
        yield f"seen: {one_line(finding.evidence, _DETAIL_CHARS)}"


def summary_lines(report: CheckReport) -> Iterator[str]:
    """Counts by status, the cost, and a program that sets the proposed quirks."""
    counts = Counter(finding.status for finding in report.findings)
    shown = ", ".join(f"{counts[status]} {status}" for status in reversed(STATUSES) if counts[status])
    counted = report.usage.output_tokens
    tokens = "tokens not reported" if counted is None else f"{counted:,} output tokens"
    requests = "1 request" if report.requests == 1 else f"{report.requests} requests"
    cost = "" if report.dollars is None else f", ${report.dollars:.4f}"
    yield ""
    yield from _wrapped(f"{shown}. {requests}, {tokens}{cost}, {report.duration_s:.1f} s.", "", "")
    if report.quirks:
        yield ""
        yield from _wrapped("The same provider with these quirks:", "", "")
        yield from _program(report)


def _program(report: CheckReport) -> Iterator[str]:
    """Python that adapts the provider; not wrapped, so that it can be copied."""
    provider = report.model.partition(":")[0]
    groups = sorted(quirk.group for quirk in report.quirks)
    yield ""
    yield "    from dataclasses import replace"
    yield "    import llmstream as ls"
    yield "    from llmstream.dialects.openai_chat import OpenAIChat, change"
    yield f"    from llmstream.dialects.openai_chat import {', '.join(groups)}"
    yield "    from llmstream.model_rules import changed"
    yield ""
    yield f'    provider = ls.Model("{one_line(provider, 80)}:any").provider'
    yield "    dialect = provider.dialect"
    yield "    assert isinstance(dialect, OpenAIChat)"
    yield "    quirks = changed(dialect.quirks, ["
    for quirk in report.quirks:
        yield f"        {one_line(quirk.expression, _DETAIL_CHARS)},"
    yield "    ])"
    yield "    provider = replace(provider, dialect=OpenAIChat(quirks))"
    where = f', base_url="{one_line(report.address, 200)}"' if report.address else ""
    yield f'    model = ls.Model("{one_line(report.model, 200)}", provider=provider{where})'


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    width = max(len(rest) + 20, columns() - 1)
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
