"""What conversations cost: as a table with bars on a terminal, and as a plot in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from llmstream.cli.terminal import columns
from llmstream.display.plain import cost_text
from llmstream.display.plot import stacked
from llmstream.display.terminal_text import one_line
from llmstream.store import CostRow

__all__ = ["cost_lines", "cost_svg"]

_NAME: Final = 40
_LEAST_BAR: Final = 8
_MOST_BAR: Final = 40
# A character has eight widths, so short bars differ too.
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
    # 46 columns of numbers, and a gap.
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
    # Without prices, tokens are the best measure.
    if any(row.cost for row in rows):
        return [row.cost or 0.0 for row in rows]
    return [float(row.input_tokens + row.output_tokens) for row in rows]


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


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
    return stacked(
        f"{'Cost' if unit == 'US dollars' else 'Tokens'} by {', '.join(by)}",
        stacks,
        x_title=by[at],
        y_title=unit,
        label="{:,.0f}".format if unit == "tokens" else "${:.4g}".format,
    )
