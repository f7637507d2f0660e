"""The distribution of the gaps between a call's events, and of what its reads waited, as a plot."""

from __future__ import annotations

from llmstream.display.plot import COLORS, Curve, distribution
from llmstream.inspector.calls import CallTrace

__all__ = ["gaps_svg"]


def gaps_svg(call: CallTrace, other: CallTrace | None = None) -> str:
    """Draws the share of gaps up to each time; `other` with dashed lines.

    returns: a complete SVG document
    """
    curves = [*_curves(call, dashed=False), *(_curves(other, dashed=True) if other is not None else ())]
    return distribution(
        f"{_name(call)}: gaps and waits",
        curves,
        x_title="time (logarithmic scale)",
        y_title="share of gaps and of reads",
    )


def _curves(call: CallTrace, *, dashed: bool) -> list[Curve]:
    name = f" of {_name(call)}" if dashed else ""
    found = [Curve(f"gap between two arrivals of content{name}", call.gaps_s(), COLORS[0], dashed)]
    if call.reads:
        waits = [wait for wait, _ in call.waits_s()]
        found.append(Curve(f"what a read waited{name}", waits, COLORS[1], dashed))
    return found


def _name(call: CallTrace) -> str:
    began = call.began
    if began is None:
        return call.source
    return f"{began.provider}:{began.model}" if began.model else began.provider or call.source
