"""What conversations cost: as a table with bars on a terminal, and as a plot in SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from llmstream.cli.terminal import columns
from llmstream.display.plain import cost_text
from llmstream.display.terminal_text import one_line
from llmstream.store import CostRow

__all__ = ["cost_lines", "cost_svg"]

_NAME: Final = 40
_LEAST_BAR: Final = 8
_MOST_BAR: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def cost_lines(by: Sequence[str], rows: Sequence[CostRow]) -> Iterator[str]:
    """A row for each group, the sum below; bars show the cost, or tokens where no price is known."""
    if not rows:
        yield "No turns."
        return
    groups = [[one_line(part, _NAME) for part in row.group] for row in rows]
    widths = [max(map(len, column)) for column in zip(by, *groups, strict=True)]
    head, *names = ["  ".join(map(str.ljust, group, widths)) for group in ([*map(str.upper, by)], *groups)]
    wide = max(len("total"), len(head))
    values = _values(rows)
    room = min(_MOST_BAR, (columns() or 100) - wide - 50)
    yield f"{head:<{wide}}{'TURNS':>8}{'IN':>13}{'OUT':>13}{'COST':>12}"
    for name, row, value in zip(names, rows, values, strict=True):
        bar = f"  {_bar(value / max(values), room)}" if room >= _LEAST_BAR and max(values) else ""
        yield f"{name:<{wide}}{_numbers(row)}{bar}".rstrip()
    if len(rows) > 1:
        yield f"{'total':<{wide}}{_numbers(_total(rows))}"


def _numbers(row: CostRow) -> str:
    cost = "unknown" if row.cost is None else cost_text(row.cost)
    return f"{row.turns:>8,}{row.input_tokens:>13,}{row.output_tokens:>13,}{cost:>12}"


def _total(rows: Sequence[CostRow]) -> CostRow:
    known = [row.cost for row in rows if row.cost is not None]
    return CostRow(
        (),
        sum(row.turns for row in rows),
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
        sum(known) if known else None,
    )


def _values(rows: Sequence[CostRow]) -> list[float]:
    if any(row.cost for row in rows):
        return [row.cost or 0.0 for row in rows]
    return [float(row.input_tokens + row.output_tokens) for row in rows]


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


_WIDTH: Final = 760
_LEFT: Final = 90
_RIGHT: Final = 24
_TOP: Final = 56
_FOOT: Final = 330
_COLOURS: Final = ("#3b6fd4", "#d97a2b", "#3a9b6b", "#a65bb5", "#b8433f", "#5a8a99", "#8a7a3d", "#6b6f76")
_MOST_LABELS: Final = 10


def cost_svg(by: Sequence[str], rows: Sequence[CostRow]) -> str:
    """Bars for the values of the first name, or of the day, stacked by the others.

    returns: a complete SVG document
    """
    at = by.index("day") if "day" in by else 0
    values = _values(rows)
    unit = "US dollars" if any(row.cost for row in rows) else "tokens"
    stacks: dict[str, dict[str, float]] = {}
    for row, value in zip(rows, values, strict=True):
        rest = ", ".join(part for place, part in enumerate(row.group) if place != at) or "all"
        stack = stacks.setdefault(row.group[at], {})
        stack[rest] = stack.get(rest, 0.0) + value
    kinds = sorted({kind for stack in stacks.values() for kind, value in stack.items() if value})
    colours = {kind: _COLOURS[place % len(_COLOURS)] for place, kind in enumerate(kinds)}
    top = _round_up(max((sum(stack.values()) for stack in stacks.values()), default=0.0))
    legend = kinds if len(kinds) > 1 else []
    height = _FOOT + 96 + 20 * math.ceil(len(legend) / 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        'font-size="12" fill="#222">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="30" font-size="15">Cost by {escape(", ".join(by))}</text>',
        f'<text x="20" y="{(_TOP + _FOOT) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 20 {(_TOP + _FOOT) / 2})">{unit}</text>',
        *_grid(top, unit),
        *_bars(stacks, colours, top),
        *_legend(legend, colours),
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_FOOT + 78}" text-anchor="middle">'
        f"{escape(by[at])}</text>",
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _round_up(value: float) -> float:
    """A round number, at least the value: its quarters are round too."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if step * power >= value * 0.999)


def _grid(top: float, unit: str) -> Iterator[str]:
    for part in range(5):
        value = top * part / 4
        y = _FOOT - part / 4 * (_FOOT - _TOP)
        label = f"{value:,.0f}" if unit == "tokens" else f"${value:.4g}"
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _bars(stacks: dict[str, dict[str, float]], colours: dict[str, str], top: float) -> Iterator[str]:
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(stacks))
    every = math.ceil(len(stacks) / _MOST_LABELS)
    for place, (name, stack) in enumerate(stacks.items()):
        x, y = _LEFT + place * step + step * 0.15, float(_FOOT)
        for kind in filter(stack.get, sorted(stack)):
            high = stack[kind] / top * (_FOOT - _TOP)
            y -= high
            title = f"<title>{escape(f'{name}, {kind}: {stack[kind]:.6g}')}</title>"
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{min(step * 0.7, 90):.1f}" height="{high:.1f}" '
                f'fill="{colours[kind]}">{title}</rect>'
            )
        if place % every == 0:
            middle = x + min(step * 0.7, 90) / 2
            yield (
                f'<text x="{middle:.1f}" y="{_FOOT + 16}" text-anchor="end" '
                f'transform="rotate(-30 {middle:.1f} {_FOOT + 16})">{escape(one_line(name, 18))}</text>'
            )


def _legend(kinds: Sequence[str], colours: dict[str, str]) -> Iterator[str]:
    for place, kind in enumerate(kinds):
        x, y = _LEFT + place % 2 * 330, _FOOT + 100 + place // 2 * 20
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colours[kind]}"/>'
        yield f'<text x="{x + 18}" y="{y}">{escape(one_line(kind, 44))}</text>'
