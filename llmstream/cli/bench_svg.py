"""A benchmark as a plot: which share of the requests had its first token, and its end, by when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from llmstream.cli.bench_report import Report
from llmstream.cli.bench_table import seconds

__all__ = ["svg"]

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 48, 72
_FIRST, _END = "#0b6e99", "#c4572e"


class _Curve(NamedTuple):
    name: str
    color: str
    dashed: bool
    values: list[float]


def svg(report: Report, other: Report | None = None) -> str:
    """The plot, a whole SVG document; the other run is dashed.

    The axis of time is logarithmic, so that a median and a tail can both be read.
    """
    curves = [*_curves(report, "", dashed=False), *(_curves(other, ", before", dashed=True) if other else ())]
    times = [value for curve in curves for value in curve.values]
    low, high = _decades(times)
    return "\n".join([*_frame(report, low, high), *_drawn(curves, low, high), "</svg>", ""])


def _curves(report: Report, suffix: str, *, dashed: bool) -> list[_Curve]:
    good = [sample for sample in report.samples if sample.error is None]
    first = sorted(s.first_token_s for s in good if s.first_token_s is not None)
    end = sorted(s.end_s for s in good)
    return [
        _Curve(f"first token{suffix}", _FIRST, dashed, first),
        _Curve(f"end to end{suffix}", _END, dashed, end),
    ]


def _decades(times: Sequence[float]) -> tuple[int, int]:
    """The powers of ten that enclose all times."""
    some = [time for time in times if time > 0] or [0.001, 1.0]
    low = math.floor(math.log10(min(some)))
    return low, max(math.ceil(math.log10(max(some))), low + 1)


def _x(time: float, low: int, high: int) -> float:
    share = (math.log10(max(time, 10.0**low)) - low) / (high - low)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _frame(report: Report, low: int, high: int) -> Iterator[str]:
    load = report.load
    how = f"{load.rate_per_s:g} a second" if load.rate_per_s else f"{load.concurrency} at a time"
    model = "".join(char if char.isprintable() else "?" for char in load.model)  # XML takes no controls
    title = escape(f"{model}: {load.requests} requests, {how}".encode("ascii", "replace").decode())
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f"<title>{title}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    yield f'<text x="{_LEFT}" y="28" font-size="15">{title}</text>'
    for percent in (0, 25, 50, 75, 90, 99, 100):
        y = _y(percent / 100)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        if percent not in (99,):
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
    for decade in range(low, high + 1):
        x = _x(10.0**decade, low, high)
        foot = _HEIGHT - _BOTTOM
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{foot}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{foot + 18}" text-anchor="middle">{seconds(10.0**decade)}</text>'


def _drawn(curves: Sequence[_Curve], low: int, high: int) -> Iterator[str]:
    for place, curve in enumerate(curves):
        dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
        if curve.values:
            points = " ".join(_steps(curve.values, low, high))
            yield (f'<polyline points="{points}" fill="none" stroke="{curve.color}" stroke-width="2"{dash}/>')
        x, y = _LEFT + 160 * place, _HEIGHT - 24
        stroke = f'stroke="{curve.color}" stroke-width="2"{dash}'
        yield f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" {stroke}/>'
        yield f'<text x="{x + 30}" y="{y + 4}">{escape(curve.name)}</text>'


def _steps(values: Sequence[float], low: int, high: int) -> Iterator[str]:
    """The empirical distribution: up by one request's share at each value."""
    yield f"{_x(values[0], low, high):.1f},{_y(0):.1f}"
    for place, value in enumerate(values):
        x = _x(value, low, high)
        yield f"{x:.1f},{_y(place / len(values)):.1f}"
        yield f"{x:.1f},{_y((place + 1) / len(values)):.1f}"
