"""Stacks as a flame graph: one SVG document without scripts, coloured by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from benchmarks.layers import LAYERS, Frame, Sample, layer_of

_WIDTH, _SIDE, _ROW = 1400, 20, 17
_HEAD, _LEGEND_ROW, _LEGEND_COLUMN = 44, 20, 130
# Of a monospaced font of 11 px: 0.602 em in DejaVu and Liberation, with room for a wider one.
_LETTER = 6.9
_TICKS = 10
# Narrower frames cannot be seen, and there are thousands of them.
_NARROWEST = 0.6
_COLORS = dict(
    zip(
        LAYERS,
        (
            "#e8a33d #d9765f #5aa9a1 #4f8fc0 #7a9e4b #b9a44c #a883b8 #6fb3d9 #c98bb0 #b5b5b5 #8c8c8c #d4c1a0 "
            "#e0e0e0"
        ).split(),
        strict=True,
    )
)


class _Box:
    """A frame in the graph: what it took itself by layer, and what it called."""

    def __init__(self) -> None:
        self.inside: dict[Frame, _Box] = {}
        self.layers: dict[str, int] = {}

    def add(self, stack: Sequence[Frame], layer: str, count: int) -> None:
        """Counts a sample here and in all frames below."""
        box = self
        for frame in (None, *stack):
            if frame is not None:
                box = box.inside.setdefault(frame, _Box())
            box.layers[layer] = box.layers.get(layer, 0) + count

    @property
    def count(self) -> int:
        """All samples in it."""
        return sum(self.layers.values())

    @property
    def layer(self) -> str:
        """The layer that took most of it."""
        return max(self.layers, key=self.layers.__getitem__)

    @property
    def depth(self) -> int:
        """Rows below."""
        return 1 + max((box.depth for box in self.inside.values()), default=0)


def flame_graph(title: str, found: Sequence[Sample]) -> str:
    """The document: outermost functions on top, width by CPU time. "" without samples."""
    root = _Box()
    for sample in found:
        root.add(sample.stack, layer_of(sample.stack), sample.count)
    if not root.layers:
        return ""
    present = [layer for layer in LAYERS if root.layers.get(layer)]
    columns = (_WIDTH - 2 * _SIDE) // _LEGEND_COLUMN
    top = _HEAD + _LEGEND_ROW * -(-len(present) // columns) + 10
    boxes = list(_boxes(root, "all", _SIDE, top, (_WIDTH - 2 * _SIDE) / root.count, root.count))
    bottom = max(y for y, _ in boxes) + _ROW
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 44}" width="{_WIDTH}" '
        f'height="{bottom + 44}" font-family="DejaVu Sans Mono, Liberation Mono, monospace" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{bottom + 44}" fill="white"/>',
        f'<text x="{_SIDE}" y="26" font-size="15" font-family="sans-serif">{escape(title)}</text>',
    ]
    for place, layer in enumerate(present):
        x, y = _SIDE + _LEGEND_COLUMN * (place % columns), _HEAD + _LEGEND_ROW * (place // columns)
        share = root.layers[layer] / root.count
        made.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{_COLORS[layer]}"/>')
        made.append(f'<text x="{x + 18}" y="{y + 10}">{layer} {share:.1%}</text>')
    made += [text for _, text in boxes]
    made += _axis(bottom)
    return "\n".join([*made, "</svg>", ""])


def _boxes(box: _Box, name: str, x: float, y: int, unit: float, total: int) -> Iterator[tuple[int, str]]:
    """A frame and those that it called, each with its place from the top."""
    width = box.count * unit
    if width < _NARROWEST:
        return
    hint = escape(f"{name}: {box.count / total:.1%}, mostly {box.layer}")
    yield (
        y,
        f'<g><title>{hint}</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.5):.1f}" '
        f'height="{_ROW - 1}" fill="{_COLORS[box.layer]}"/>{_label(name, x, y, width)}</g>',
    )
    for frame, inner in sorted(box.inside.items(), key=lambda item: -item[1].count):
        yield from _boxes(inner, str(frame), x, y + _ROW, unit, total)
        x += inner.count * unit


def _label(name: str, x: float, y: int, width: float) -> str:
    """As much of the name as there is room for; nothing where that would be two letters."""
    room = int((width - 6) / _LETTER)
    function = name.partition(" (")[0]
    shown = name if len(name) <= room else function if len(function) <= room else f"{function[: room - 1]}…"
    return f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>' if room > 3 else ""


def _axis(y: int) -> Iterator[str]:
    """A line below the graph, in tenths of the CPU time."""
    long = _WIDTH - 2 * _SIDE
    yield f'<line x1="{_SIDE}" x2="{_WIDTH - _SIDE}" y1="{y + 8}" y2="{y + 8}" stroke="#555"/>'
    for tick in range(_TICKS + 1):
        x = _SIDE + long * tick / _TICKS
        anchor = "start" if tick == 0 else "end" if tick == _TICKS else "middle"
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 8}" y2="{y + 13}" stroke="#555"/>'
        text = f"{tick / _TICKS:.0%}" + (" of CPU time" if tick == _TICKS else "")
        yield f'<text x="{x:.1f}" y="{y + 27}" text-anchor="{anchor}">{text}</text>'
