"""Plots as SVG documents: distributions, bars and lines, with axis titles, units and a legend.

Everything is plain shapes and text with a white ground, so that browsers, rsvg-convert and pages that forbid
scripts show the same. Texts are escaped, and shortened so that none is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from llmstream.display.terminal_text import one_line

__all__ = ["COLORS", "Curve", "bars", "distribution", "lines", "percentile", "seconds", "stacked"]

COLORS: Final = ("#0b6e99", "#c4572e", "#4a7c35", "#7a4b94", "#946b00", "#b8433f", "#3b6fd4", "#555555")
"""Distinct on white, also to people who do not tell red from green."""

_WIDTH: Final = 760
_RIGHT: Final = 40
_TOP: Final = 48
_PLOT: Final = 280
# Widths of a character of 12 and 15 pixels that no usual sans-serif font exceeds.
_CHAR: Final = 7.2
_TITLE_CHAR: Final = 9.0
_MARKS: Final = ((50, "p50"), (99, "p99"))
# No clock measures times outside this range; they are drawn at the edge.
_SHORTEST_S, _LONGEST_S = 1e-7, 1e7
# Steps of a decade at which an axis may start, end and have a label.
_STEPS: Final = (1, 2, 5)
# On a longer axis only powers of ten are labelled.
_FEW_DECADES: Final = 2.5
# More would overlap.
_MAX_LABELS: Final = 10
# Of a name in the text that a pointer shows.
_HINT_CHARS: Final = 200


class Curve(NamedTuple):
    """Values of one kind. dashed: of an earlier run, or of another one that is compared."""

    name: str
    values: Sequence[float]
    color: str = COLORS[0]
    dashed: bool = False


def seconds(value: float) -> str:
    """Formats a duration with three digits and its unit: "12.3 ms"."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        scaled = value * factor
        if scaled >= 1 or unit == "us":
            digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
            return f"{scaled:.{digits}f} {unit}"
    return ""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Returns a percentile, interpolated linearly between neighbouring values.

    ordered: ascending, not empty
    source:  Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, definition 7
    """
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


# Axes.


class _Axis(NamedTuple):
    """A logarithmic axis. start, end: its places in pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        share = math.log10(inside / self.low) / math.log10(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, bool]]:
        """Values of the steps of each decade, and whether they have a label."""
        few = math.log10(self.high / self.low) <= _FEW_DECADES
        # The logarithm of a power of ten may be off in its last digit.
        first = math.floor(math.log10(self.low) + 1e-9)
        last = math.ceil(math.log10(self.high) - 1e-9)
        for power in range(first, last + 1):
            for step in range(1, 10):
                value = step * 10.0**power
                # Within rounding, so that the ends of the axis count.
                if self.low * 0.999 <= value <= self.high * 1.001:
                    yield value, step == 1 or (few and step in _STEPS)


def _times(values: Sequence[float], start: float, end: float) -> _Axis:
    """An axis between round times that enclose all times, in seconds."""
    some = [value for value in values if _SHORTEST_S < value < _LONGEST_S] or [0.001, 1.0]
    low = max(value for value in _round(min(some)) if value <= min(some))
    # Above the low end, or the axis of a single value would have no length.
    high = min(value for value in _round(max(some)) if value >= max(some) and value > low)
    return _Axis(low, high, start, end)


def _round(value: float) -> list[float]:
    """1, 2 and 5 times the powers of ten around a value."""
    decade = math.floor(math.log10(value))
    return [step * 10.0**power for power in range(decade - 1, decade + 3) for step in _STEPS]


def _decades(values: Iterable[float], start: float, end: float) -> _Axis:
    """An axis between powers of ten."""
    some = [value for value in values if value > 0] or [1.0]
    low = math.floor(math.log10(min(some)))
    high = max(math.ceil(math.log10(max(some))), low + 1)
    return _Axis(10.0**low, 10.0**high, start, end)


# Plots.


def distribution(title: str, curves: Sequence[Curve], *, x_title: str, y_title: str) -> str:
    """Draws the share of values up to each time, with marks for p50 and p99.

    The time axis is logarithmic, so that both median and tail are readable.
    curves:  with values in seconds
    returns: a complete SVG document
    """
    left, foot = 72, _TOP + _PLOT
    curves = [curve._replace(values=sorted(curve.values)) for curve in curves]
    axis = _times([value for curve in curves for value in curve.values], left, _WIDTH - _RIGHT)
    height = foot + 64 + 20 * max(2, len(curves)) + 12

    def y(share: float) -> float:
        return foot - share * _PLOT

    made = [*_head(title, height, left), *_titles(left, foot, x_title, y_title, clear=130)]
    for percent in (0, 25, 50, 75, 90, 100):
        made.append(_line(left, _WIDTH - _RIGHT, y(percent / 100), y(percent / 100)))
        made.append(_text(left - 8, y(percent / 100) + 4, f"{percent} %", "end"))
    made += _time_ticks(axis, foot)
    for curve in filter(lambda curve: curve.values, curves):
        points = " ".join(_risers(curve.values, axis, y))
        made.append(f'<polyline points="{points}" fill="none" {_stroke(curve)}/>')
        for percent, name in _MARKS:
            time = percentile(curve.values, percent)
            shown = f"<title>{escape(one_line(curve.name, _HINT_CHARS))} {name}: {seconds(time)}</title>"
            made.append(_mark(name, axis.at(time), y(percent / 100), curve, shown))
    made += _legend_of(curves, left, foot + 64)
    return _document(made)


def stacked(
    title: str,
    stacks: Mapping[str, Mapping[str, float]],
    *,
    x_title: str,
    y_title: str,
    label: Callable[[float], str] = "{:,.4g}".format,
) -> str:
    """Draws a bar for each name, stacked of kinds.

    stacks:  name to kind to value
    label:   formats a value at the axis
    returns: a complete SVG document
    """
    left, foot = 90, _TOP + _PLOT
    kinds = sorted({kind for stack in stacks.values() for kind, value in stack.items() if value})
    colors = {kind: COLORS[place % len(COLORS)] for place, kind in enumerate(kinds)}
    top = _round_up(max((sum(stack.values()) for stack in stacks.values()), default=0.0))
    legend = kinds if len(kinds) > 1 else []
    made = [
        *_head(title, foot + 96 + 20 * math.ceil(len(legend) / 2), left),
        *_titles(left, foot, x_title, y_title, below=78),
    ]
    for part in range(5):
        y = foot - part / 4 * _PLOT
        made.append(_line(left, _WIDTH - _RIGHT, y, y))
        made.append(_text(left - 8, y + 4, label(top * part / 4), "end"))
    made += _columns(stacks, colors, top, left, foot)
    for place, kind in enumerate(legend):
        x, y = left + place % 2 * 330, foot + 100 + place // 2 * 20
        made.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colors[kind]}"/>')
        made.append(_text(x + 18, y, one_line(kind, 40)))
    return _document(made)


def bars(title: str, rows: Sequence[tuple[str, float]], *, x_title: str, ours: str) -> str:
    """Draws a bar for each row on a logarithmic axis; those whose name begins with `ours` stand out.

    returns: a complete SVG document; "" without rows
    """
    if not rows:
        return ""
    left, step = 300, 22
    foot = _TOP + step * len(rows)
    axis = _decades([value for _, value in rows], left, _WIDTH - 70)
    made = [*_head(title, foot + 56, 16)]
    for value, labelled in axis.ticks():
        if labelled:
            x = axis.at(value)
            made.append(_line(x, x, _TOP, foot + 6))
            made.append(_text(x, foot + 22, f"{value:,.10g}", "middle"))
    shown = one_line(f"{x_title} (logarithmic scale)", int((_WIDTH - 70 - left) / _CHAR))
    made.append(_text((left + _WIDTH - 70) / 2, foot + 44, shown, "middle"))
    for place, (name, value) in enumerate(rows):
        y, width = _TOP + step * place, axis.at(value) - left
        color = COLORS[0] if name.startswith(ours) else "#b8b8b8"
        made.append(_text(left - 8, y + 14, one_line(name, 40), "end"))
        made.append(f'<rect x="{left}" y="{y + 3}" width="{width:.1f}" height="{step - 7}" fill="{color}"/>')
        made.append(_text(left + width + 6, y + 14, f"{value:.1f}"))
    return _document(made)


def lines(
    title: str, rows: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, x_title: str, y_title: str
) -> str:
    """Draws a line for each row of (name, points), both axes logarithmic.

    returns: a complete SVG document; "" without rows
    """
    if not rows:
        return ""
    left, foot = 90, _TOP + _PLOT
    across = _decades([x for _, points in rows for x, _ in points], left, _WIDTH - _RIGHT)
    up = _decades([y for _, points in rows for _, y in points], foot, _TOP)
    made = [*_head(title, foot + 76 + 20 * math.ceil(len(rows) / 2), left)]
    made += _titles(left, foot, f"{x_title} (logarithmic scale)", f"{y_title} (logarithmic scale)")
    for value in (value for value, labelled in across.ticks() if labelled):
        x = across.at(value)
        made += [_line(x, x, _TOP, foot), _text(x, foot + 18, f"{value:,.10g}", "middle")]
    for value in (value for value, labelled in up.ticks() if labelled):
        y = up.at(value)
        made += [_line(left, _WIDTH - _RIGHT, y, y), _text(left - 8, y + 4, f"{value:,.10g}", "end")]
    for place, (name, points) in enumerate(rows):
        curve = Curve(name, (), COLORS[place % len(COLORS)])
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in points)
        made.append(f'<polyline points="{path}" fill="none" {_stroke(curve)}/>')
        x, y = left + 320 * (place % 2), foot + 70 + 20 * (place // 2)
        made.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" {_stroke(curve)}/>')
        made.append(_text(x + 30, y + 4, one_line(name, 38)))
    return _document(made)


# Parts.


def _head(title: str, height: float, left: float) -> Iterator[str]:
    """The ground and the title."""
    shown = escape(one_line(title, int((_WIDTH - left - 16) / _TITLE_CHAR)))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12" fill="#222">'
    )
    yield f"<title>{shown}</title>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    yield f'<text x="{left}" y="28" font-size="15">{shown}</text>'


def _titles(
    left: float, foot: float, x_title: str, y_title: str, *, below: float = 38, clear: float = 0
) -> Iterator[str]:
    """The names of the axes. clear: pixels at the right of the lower one that something else has."""
    right = _WIDTH - _RIGHT - clear
    yield _text((left + right) / 2, foot + below, one_line(x_title, int((right - left) / _CHAR)), "middle")
    middle = (_TOP + foot) / 2
    yield (
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        f"{escape(one_line(y_title, int((foot - _TOP) / _CHAR)))}</text>"
    )


def _document(made: Iterable[str]) -> str:
    return "\n".join([*made, "</svg>", ""])


def _time_ticks(axis: _Axis, foot: float) -> Iterator[str]:
    for value, labelled in axis.ticks():
        x = axis.at(value)
        top, color = (_TOP, "#ddd") if labelled else (foot - 5, "#aaa")
        yield _line(x, x, top, foot, color)
        if labelled:
            # A little more, so that 1 ms is not shown as 1000 us for the sake of its last digit.
            number, _, unit = seconds(value * 1.0001).partition(" ")
            yield _text(x, foot + 18, f"{round(float(number)):g} {unit}", "middle")


def _risers(values: Sequence[float], axis: _Axis, y: Callable[[float], float]) -> Iterator[str]:
    """The points of the empirical distribution, a step up at each value."""
    yield f"{axis.at(values[0]):.1f},{y(0):.1f}"
    for place, value in enumerate(values):
        x = axis.at(value)
        yield f"{x:.1f},{y(place / len(values)):.1f}"
        yield f"{x:.1f},{y((place + 1) / len(values)):.1f}"


def _legend_of(curves: Sequence[Curve], left: float, top: float) -> Iterator[str]:
    """Each curve with its percentiles, and the marks."""
    for place, curve in enumerate(curves):
        y = top + 20 * place
        yield f'<line x1="{left}" x2="{left + 24}" y1="{y}" y2="{y}" {_stroke(curve)}/>'
        facts = [f"{name} {seconds(percentile(curve.values, p))}" for p, name in _MARKS if curve.values]
        yield _text(left + 30, y + 4, f"{one_line(curve.name, 60)}: {', '.join(facts) or 'none'}")
    plain = Curve("", (), "#444")
    for place, (_, name) in enumerate(_MARKS):
        x, y = _WIDTH - _RIGHT - 84 + 50 * place, top - 30
        yield _mark(name, x, y, plain)
        yield _text(x + 10, y + 4, name)


def _columns(
    stacks: Mapping[str, Mapping[str, float]],
    colors: Mapping[str, str],
    top: float,
    left: float,
    foot: float,
) -> Iterator[str]:
    step = (_WIDTH - left - _RIGHT) / max(1, len(stacks))
    every = math.ceil(len(stacks) / _MAX_LABELS)
    width = min(step * 0.7, 90)
    for place, (name, stack) in enumerate(stacks.items()):
        x, y = left + place * step + step * 0.15, float(foot)
        for kind in filter(stack.get, sorted(stack)):
            high = stack[kind] / top * _PLOT
            y -= high
            hint = f"{one_line(name, _HINT_CHARS)}, {one_line(kind, _HINT_CHARS)}: {stack[kind]:.6g}"
            shown = f"<title>{escape(hint)}</title>"
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{high:.1f}" '
                f'fill="{colors[kind]}">{shown}</rect>'
            )
        if place % every == 0:
            middle = x + width / 2
            yield (
                f'<text x="{middle:.1f}" y="{foot + 16}" text-anchor="end" '
                f'transform="rotate(-30 {middle:.1f} {foot + 16})">{escape(one_line(name, 18))}</text>'
            )


def _round_up(value: float) -> float:
    """A round number, at least the value: its quarters are round too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if step * power >= value * 0.999)


def _mark(name: str, x: float, y: float, curve: Curve, inside: str = "") -> str:
    """A circle for the p50 or a diamond for the p99; hollow on a dashed curve."""
    paint = f'fill="{"white" if curve.dashed else curve.color}" stroke="{curve.color}" stroke-width="1.5"'
    if name == "p50":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}>{inside}</circle>'
    return f'<path d="M{x:.1f},{y - 5:.1f} l5,5 l-5,5 l-5,-5 z" {paint}>{inside}</path>'


def _stroke(curve: Curve) -> str:
    dash = ' stroke-dasharray="5 4"' if curve.dashed else ""
    return f'stroke="{curve.color}" stroke-width="2"{dash}'


def _line(x1: float, x2: float, y1: float, y2: float, color: str = "#ddd") -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
