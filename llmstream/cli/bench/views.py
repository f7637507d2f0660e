"""Shows the report of a benchmark: as text with a table and histograms, and as an SVG plot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llmstream.cli.bench.report import Change, Load, Report, Spread, compare, histogram
from llmstream.display.plot import COLORS, Curve, distribution, seconds
from llmstream.display.terminal_text import one_line

__all__ = ["comparison_lines", "report_lines", "seconds", "svg"]

_COLUMNS = ("p50", "p90", "p99", "max", "mean")
_BAR_CHARS = 40
_LATE_LOOP_S = 0.02
_BUSY = 0.8
_MESSAGE_CHARS = 400
# In less time, the event loop is sampled at most twenty times, and startup takes most of the CPU time.
_SHORTEST_MEASURED_S = 0.2


def report_lines(report: Report) -> Iterator[str]:
    """Formats the report as lines without colours."""
    yield _headline(report)
    if report.completed:
        yield from _times(report)
    yield ""
    yield from _troubles(report)
    if report.completed:
        yield from _overhead(report)


def _times(report: Report) -> Iterator[str]:
    yield ""
    yield f"{'':<16}" + "".join(f"{name:>11}" for name in _COLUMNS)
    yield from _row("first event", report.first_event_s)
    yield from _row("first token", report.first_token_s)
    yield from _row("between tokens", report.between_tokens_s)
    yield from _row("end to end", report.end_to_end_s)
    rates = report.request_tokens_per_s
    if rates is not None:
        cells = "".join(f"{getattr(rates, name):>11,.0f}" for name in _COLUMNS)
        yield f"{report.tokens_by.replace('usage', 'tokens') + '/s each':<16}{cells}"
    good = [s for s in report.samples if s.error is None]
    yield from _bars("first token", [s.first_token_s for s in good if s.first_token_s is not None])
    yield from _bars("end to end", [s.end_s for s in good])


def comparison_lines(old: Report, new: Report) -> Iterator[str]:
    """Formats each figure of both runs and their ratio; first a warning if the loads differ."""
    yield ""
    yield f"compared with the run of {one_line(old.when, 40)} ({_load(old.load)})"
    if old.load != new.load:
        yield "  warning: the runs had different loads"
    yield f"  {'':<22}{'before':>12}{'now':>12}{'ratio':>9}"
    for change in compare(old, new):
        shown = [_figure(change, value) for value in (change.old, change.new)]
        ratio = "-" if change.ratio is None else f"{change.ratio:.2f}x"
        yield f"  {change.name:<22}{shown[0]:>12}{shown[1]:>12}{ratio:>9}"


def _figure(change: Change, value: float) -> str:
    if change.name.endswith("/s"):
        return f"{value:,.1f}"
    return f"{value:.0f}" if change.name == "errors" else seconds(value)


def _load(load: Load) -> str:
    how = f"{load.rate_per_s:g} a second" if load.rate_per_s else f"{load.concurrency} at a time"
    return f"{one_line(load.model, 60)}, {load.requests} requests, {how}"


def _headline(report: Report) -> str:
    return (
        f"{_load(report.load)}: {seconds(report.wall_s)}, "
        f"{report.requests_per_s:,.1f} requests/s, {report.tokens_per_s:,.0f} tokens/s"
    )


def _row(name: str, values: Spread | None) -> Iterator[str]:
    if values is not None:
        yield f"{name:<16}" + "".join(f"{seconds(getattr(values, column)):>11}" for column in _COLUMNS)


def _bars(name: str, values: list[float]) -> Iterator[str]:
    bins = histogram(values)
    if not bins:
        return
    yield ""
    yield f"{name} ({len(values)} requests)"
    most = max(found.size for found in bins)
    for found in bins:
        # A single request shows too.
        bar = "█" * max(round(_BAR_CHARS * found.size / most), found.size > 0)
        yield f"  {seconds(found.low):>8} to {seconds(found.high):>8}  {bar} {found.size}"


def _troubles(report: Report) -> Iterator[str]:
    if report.unfinished:
        yield f"stopped: {report.unfinished} of {report.load.requests} requests did not finish"
    failed = sum(report.errors.values())
    if failed:
        codes = ", ".join(f"{count} {one_line(code, 40)}" for code, count in report.errors.items())
        yield f"errors: {failed} of {failed + report.completed}: {codes} (excluded from the times)"
        for code, message in report.messages.items():
            yield f"  {one_line(code, 40)}: {one_line(message, _MESSAGE_CHARS)}"
        if report.address:
            yield f"  address: {one_line(report.address, _MESSAGE_CHARS)}"
    else:
        yield "errors: none"
    if report.completed and report.tokens_by == "fragments":
        yield "tokens: number of fragments, because not every response reported its token count"


def _overhead(report: Report) -> Iterator[str]:
    """Describes the load of this process, which is part of the measured times."""
    found = report.overhead
    lag = found.loop_lag_s
    if report.wall_s < _SHORTEST_MEASURED_S:
        yield "overhead: not measured, the run was too short"
        return
    included = ", including its simulator" if report.load.model.startswith("sim") else ""
    yield f"overhead: this process used {found.cpu_share:.0%} of a core{included}"
    if lag is not None:
        yield f"  event loop delay: {seconds(lag.p50)} (p50), {seconds(lag.p99)} (p99);"
        yield "  the times above may be too long by as much"
    if found.cpu_share > _BUSY or (lag is not None and lag.p99 > _LATE_LOOP_S):
        yield "  warning: this process was too busy, so the results include its own delays"


# Length of a model name that fits into the title.
_MODEL_CHARS: Final = 48


def svg(report: Report, other: Report | None = None) -> str:
    """Draws the share of requests that had their first token, or ended, by a given time.

    other:   an earlier run, drawn with dashed lines
    returns: a complete SVG document
    """
    load = report.load
    how = f"{load.rate_per_s:g} a second" if load.rate_per_s else f"{load.concurrency} at a time"
    title = f"{one_line(load.model, _MODEL_CHARS)}: {load.requests} requests, {how}"
    return distribution(
        title.encode("ascii", "replace").decode(),
        [*_curves(report, "", dashed=False), *(_curves(other, ", before", dashed=True) if other else ())],
        x_title="time since the request was due (logarithmic scale)",
        y_title="share of requests",
    )


def _curves(report: Report, suffix: str, *, dashed: bool) -> list[Curve]:
    good = [sample for sample in report.samples if sample.error is None]
    first = [s.first_token_s for s in good if s.first_token_s is not None]
    return [
        Curve(f"first token{suffix}", first, COLORS[0], dashed),
        Curve(f"end to end{suffix}", [s.end_s for s in good], COLORS[1], dashed),
    ]
