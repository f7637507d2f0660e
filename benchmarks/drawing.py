"""Bars and lines on logarithmic axes, as SVG documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH = 760
_COLORS = ("#0b6e99", "#c4572e", "#4a7c35", "#7a4b94", "#946b00", "#555555")


class Line(NamedTuple):
    """A named row of points."""

    name: str
    points: list[tuple[float, float]]


class _Scale:
    """Values to places on an axis whose steps are powers of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        some = [value for value in values if value > 0]
        self.low = math.floor(math.log10(min(some)))
        self.high = max(math.ceil(math.log10(max(some))), self.low + 1)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def bars(title: str, rows: Sequence[tuple[str, float]], *, ours: str) -> str:
    """A bar for each row, logarithmic; those whose name begins with `ours` stand out. "" without rows."""
    if not rows:
        return ""
    left, step, top = 300, 22, 56
    height = top + step * len(rows) + 30
    scale = _Scale([value for _, value in rows], left, _WIDTH - 70)
    made = list(_head(title, height))
    for value in scale.decades():
        x = scale(value)
        made.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - 24}" stroke="#ddd"/>')
        made.append(_text(x, height - 8, f"{value:,.10g}", "middle"))
    for place, (name, value) in enumerate(rows):
        y = top + step * place
        color = _COLORS[0] if name.startswith(ours) else "#b8b8b8"
        width = scale(value) - left
        made.append(_text(left - 8, y + 14, name, "end"))
        made.append(f'<rect x="{left}" y="{y + 3}" width="{width:.1f}" height="{step - 7}" fill="{color}"/>')
        made.append(_text(left + width + 6, y + 14, f"{value:.1f}"))
    return "\n".join([*made, "</svg>", ""])


def lines(title: str, rows: Sequence[Line]) -> str:
    """A line for each row, both axes logarithmic. "" without rows."""
    if not rows:
        return ""
    height, left, top, foot = 400, 70, 56, 60 + 20 * math.ceil(len(rows) / 3)
    across = _Scale([x for row in rows for x, _ in row.points], left, _WIDTH - 30)
    up = _Scale([y for row in rows for _, y in row.points], height - foot, top)
    made = list(_head(title, height))
    for value in across.decades():
        x = across(value)
        made.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - foot}" stroke="#ddd"/>')
        made.append(_text(x, height - foot + 18, f"{value:,.10g}", "middle"))
    for value in up.decades():
        y = up(value)
        made.append(f'<line x1="{left}" x2="{_WIDTH - 30}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        made.append(_text(left - 8, y + 4, f"{value:,.10g}", "end"))
    for place, row in enumerate(rows):
        color = _COLORS[place % len(_COLORS)]
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in row.points)
        made.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        x, y = left + 225 * (place % 3), height - foot + 44 + 20 * (place // 3)
        made.append(f'<line x1="{x}" x2="{x + 22}" y1="{y}" y2="{y}" stroke="{color}" stroke-width="2"/>')
        made.append(_text(x + 28, y + 4, row.name))
    return "\n".join([*made, "</svg>", ""])


def _head(title: str, height: float) -> Iterator[str]:
    shown = escape(title)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f"<title>{shown}</title>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    yield f'<text x="16" y="28" font-size="15">{shown}</text>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
