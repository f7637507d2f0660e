"""Shows the report of `llmstream check` as a table, with what to do about each finding."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from llmstream.cli.errors import with_flags
from llmstream.cli.terminal import columns
from llmstream.display.terminal_text import one_line
from llmstream.endpoint_check.report import STATUSES, CheckReport, Finding, Status

__all__ = ["finding_lines", "summary_lines", "table_lines"]

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
# Below, the text stands under the probe and not beside it.
_NARROW: Final = 72
_DETAIL_CHARS: Final = 600
# More probes that were skipped for the same reason share a row.
_MOST_SKIPPED: Final = 3


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
        if count <= _MOST_SKIPPED:
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
    """What was seen, and of what is not ok what it means and what to do."""
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
    yield "    from llmstream.dialects.quirks import changed"
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
