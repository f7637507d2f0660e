"""Shows the report of a benchmark: as text with a table and histograms, and as an SVG plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from llmstream.cli.bench.report import Change, Load, Report, Spread, compare, histogram, percentile
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


def seconds(value: float) -> str:
    """Formats a duration with three digits and its unit: "12.3 ms"."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        scaled = value * factor
        if scaled >= 1 or unit == "us":
            digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
            return f"{scaled:.{digits}f} {unit}"
    return ""


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


_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 40, 48, 116
_FIRST, _END = "#0b6e99", "#c4572e"
_FOOT = _HEIGHT - _BOTTOM

# Length of a model name that fits into the title.
_MODEL_CHARS: Final = 48
# No clock measures times outside this range; they are drawn at the edge.
_SHORTEST_S, _LONGEST_S = 1e-7, 1e7
# Steps of a decade at which the time axis may start, end and have a label.
_STEPS: Final = (1, 2, 5)
# On a longer axis only powers of ten are labelled.
_FEW_DECADES: Final = 2.5
_MARKS: Final = ((50, "p50"), (99, "p99"))


class _Curve(NamedTuple):
    name: str
    color: str
    dashed: bool
    values: list[float]


class _Axis(NamedTuple):
    """The logarithmic time axis, in seconds."""

    low: float
    high: float

    def x(self, time: float) -> float:
        inside = min(max(time, self.low), self.high)
        share = math.log10(inside / self.low) / math.log10(self.high / self.low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def svg(report: Report, other: Report | None = None) -> str:
    """Draws the share of requests that had their first token, or ended, by a given time.

    The time axis is logarithmic, so that both median and tail are readable.
    other:   an earlier run, drawn with dashed lines
    returns: a complete SVG document
    """
    curves = [*_curves(report, "", dashed=False), *(_curves(other, ", before", dashed=True) if other else ())]
    axis = _axis([value for curve in curves for value in curve.values])
    return "\n".join([*_frame(report), *_grid(axis), *_drawn(curves, axis), *_legend(curves), "</svg>", ""])


def _curves(report: Report, suffix: str, *, dashed: bool) -> list[_Curve]:
    good = [sample for sample in report.samples if sample.error is None]
    first = sorted(s.first_token_s for s in good if s.first_token_s is not None)
    end = sorted(s.end_s for s in good)
    return [
        _Curve(f"first token{suffix}", _FIRST, dashed, first),
        _Curve(f"end to end{suffix}", _END, dashed, end),
    ]


def _axis(times: Sequence[float]) -> _Axis:
    """Returns an axis between round times that enclose all times."""
    some = [time for time in times if _SHORTEST_S < time < _LONGEST_S] or [0.001, 1.0]
    low = max(time for time in _round_times(min(some)) if time <= min(some))
    high = min(time for time in _round_times(max(some)) if time >= max(some) and time > low)
    return _Axis(low, high)


def _round_times(time: float) -> list[float]:
    """Returns 1, 2 and 5 times the powers of ten around a time."""
    decade = math.floor(math.log10(time))
    return [step * 10.0**power for power in range(decade - 1, decade + 3) for step in _STEPS]


def _y(share: float) -> float:
    return _FOOT - share * (_FOOT - _TOP)


def _frame(report: Report) -> Iterator[str]:
    """Draws the title and the names of the axes."""
    load = report.load
    how = f"{load.rate_per_s:g} a second" if load.rate_per_s else f"{load.concurrency} at a time"
    model = one_line(load.model, _MODEL_CHARS)
    title = escape(f"{model}: {load.requests} requests, {how}".encode("ascii", "replace").decode())
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f"<title>{title}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    yield f'<text x="{_LEFT}" y="28" font-size="15">{title}</text>'
    yield _text(
        (_LEFT + _WIDTH - _RIGHT) / 2, _FOOT + 38, "time since the request was due (logarithmic scale)"
    )
    middle = (_TOP + _FOOT) / 2
    yield (
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        "share of requests</text>"
    )


def _grid(axis: _Axis) -> Iterator[str]:
    for percent in (0, 25, 50, 75, 90, 100):
        y = _y(percent / 100)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(_LEFT - 8, y + 4, f"{percent} %", anchor="end")
    few = math.log10(axis.high / axis.low) <= _FEW_DECADES
    first = math.floor(math.log10(axis.low) + 1e-9)
    last = math.ceil(math.log10(axis.high) - 1e-9)
    for power in range(first, last + 1):
        for step in range(1, 10):
            time = step * 10.0**power
            if not axis.low * 0.999 <= time <= axis.high * 1.001:
                continue
            x = axis.x(time)
            labelled = step == 1 or (few and step in _STEPS)
            top, color = (_TOP, "#ddd") if labelled else (_FOOT - 5, "#aaa")
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{_FOOT}" stroke="{color}"/>'
            if labelled:
                yield _text(x, _FOOT + 18, _tick(time))


def _tick(time: float) -> str:
    """Formats a round time without needless digits: "50 ms"."""
    number, _, unit = seconds(time * 1.0001).partition(" ")
    return f"{round(float(number)):g} {unit}"


def _drawn(curves: Sequence[_Curve], axis: _Axis) -> Iterator[str]:
    for curve in filter(lambda curve: curve.values, curves):
        points = " ".join(_steps(curve.values, axis))
        stroke = _stroke(curve)
        yield f'<polyline points="{points}" fill="none" {stroke}/>'
        for percent, name in _MARKS:
            time = percentile(curve.values, percent)
            shown = f"<title>{escape(curve.name)} {name}: {seconds(time)}</title>"
            yield _mark(name, axis.x(time), _y(percent / 100), curve, shown)


def _legend(curves: Sequence[_Curve]) -> Iterator[str]:
    """Draws the legend: each curve with its percentiles, two per row, and the marks."""
    for place, curve in enumerate(curves):
        x, y = _LEFT + 300 * (place // 2), _FOOT + 64 + 20 * (place % 2)
        yield f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" {_stroke(curve)}/>'
        facts = [f"{name} {seconds(percentile(curve.values, p))}" for p, name in _MARKS if curve.values]
        yield _text(x + 30, y + 4, f"{curve.name}: {', '.join(facts) or 'none'}", anchor="start")
    plain = _Curve("", "#444", False, [])
    for place, (_, name) in enumerate(_MARKS):
        x, y = _WIDTH - _RIGHT - 84 + 50 * place, _FOOT + 34
        yield _mark(name, x, y, plain)
        yield _text(x + 10, y + 4, name, anchor="start")


def _mark(name: str, x: float, y: float, curve: _Curve, inside: str = "") -> str:
    """Draws a circle for the p50 or a diamond for the p99; hollow for the other run."""
    paint = f'fill="{"white" if curve.dashed else curve.color}" stroke="{curve.color}" stroke-width="1.5"'
    if name == "p50":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}>{inside}</circle>'
    corners = f"M{x:.1f},{y - 5:.1f} l5,5 l-5,5 l-5,-5 z"
    return f'<path d="{corners}" {paint}>{inside}</path>'


def _stroke(curve: _Curve) -> str:
    dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
    return f'stroke="{curve.color}" stroke-width="2"{dash}'


def _text(x: float, y: float, text: str, *, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _steps(values: Sequence[float], axis: _Axis) -> Iterator[str]:
    """Yields the points of the empirical distribution, a step up at each value."""
    yield f"{axis.x(values[0]):.1f},{_y(0):.1f}"
    for place, value in enumerate(values):
        x = axis.x(value)
        yield f"{x:.1f},{_y(place / len(values)):.1f}"
        yield f"{x:.1f},{_y((place + 1) / len(values)):.1f}"
