"""Plots as SVG: axes have titles and units, and nothing is cut off."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from llmstream.display.plot import Curve, bars, distribution, lines, percentile, seconds, stacked

SVG = "{http://www.w3.org/2000/svg}"
LONG = "a name of many words " * 12
HOSTILE = 'sim:<a&b>"\x1b[2J\x00\u202e'

PLOTS: dict[str, Callable[[str], str]] = {
    "distribution": lambda name: distribution(
        name,
        [
            Curve(name, [0.001 * n for n in range(1, 200)]),
            Curve(name, [2.0, 30.0], dashed=True),
            Curve(name, []),
        ],
        x_title=name,
        y_title=name,
    ),
    "stacked": lambda name: stacked(
        name, {f"{n} {name}": {name: 1.0 + n, "other": 2.0} for n in range(40)}, x_title=name, y_title=name
    ),
    "bars": lambda name: bars(name, [(name, 1.5), ("ours", 900.0)], x_title=name, ours="ours"),
    "lines": lambda name: lines(
        name, [(f"{n} {name}", [(1, 10.0), (10_000, 3.0)]) for n in range(5)], x_title=name, y_title=name
    ),
}


@pytest.mark.parametrize("name", ["short", LONG, HOSTILE], ids=["short", "long", "hostile"])
@pytest.mark.parametrize("plot", PLOTS)
def test_no_text_leaves_the_picture(plot: str, name: str) -> None:
    """By the width of the widest usual fonts; texts that are turned, by their height."""
    drawn = ET.fromstring(PLOTS[plot](name))
    width, height = map(float, drawn.attrib["viewBox"].split()[2:])
    for text in drawn.iter(f"{SVG}text"):
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        assert 0 < y < height
        size = float(text.attrib.get("font-size", 12)) * 0.6 * len(text.text or "")
        if (turned := text.attrib.get("transform", "")) and "-90" in turned:
            assert size / 2 <= y <= height - size / 2
        elif not turned:
            before = {"middle": size / 2, "end": size}.get(text.attrib.get("text-anchor", ""), 0.0)
            assert x - before >= -1, text.text
            assert x - before + size <= width + 1, text.text


@pytest.mark.parametrize("plot", PLOTS)
def test_axes_have_titles(plot: str) -> None:
    texts = [text.text or "" for text in ET.fromstring(PLOTS[plot]("share")).iter(f"{SVG}text")]
    assert sum(text.startswith("share") for text in texts) >= 2


def test_no_control_characters_are_drawn() -> None:
    for plot in PLOTS.values():
        assert re.search(r"[\x00-\x08\x0b-\x1f\u202e]", plot(HOSTILE)) is None


def test_marks_for_p50_and_p99() -> None:
    drawn = ET.fromstring(
        distribution("t", [Curve("waits", [n / 100 for n in range(1, 101)])], x_title="time", y_title="share")
    )
    marks = [title.text for title in drawn.iter(f"{SVG}title")]
    assert {"waits p50: 505 ms", "waits p99: 990 ms"} <= set(marks)
    assert "waits: p50 505 ms, p99 990 ms" in [text.text for text in drawn.iter(f"{SVG}text")]


def test_times_at_the_edge_are_drawn() -> None:
    """0, and what no clock measures."""
    for values in ([0.0], [0.0, 1e9], [1e-12, 5.0], []):
        assert "NaN" not in distribution("t", [Curve("c", values)], x_title="x", y_title="y")


def test_nothing_to_draw() -> None:
    assert bars("t", [], x_title="x", ours="o") == lines("t", [], x_title="x", y_title="y") == ""
    assert stacked("t", {}, x_title="x", y_title="y").endswith("</svg>\n")


@pytest.mark.parametrize(("value", "shown"), [(0.0123, "12.3 ms"), (1.5, "1.50 s"), (0.0, "0.00 us")])
def test_durations_have_a_unit(value: float, shown: str) -> None:
    assert seconds(value) == shown


def test_percentiles_are_interpolated() -> None:
    assert [percentile([10, 20, 30, 40, 50], p) for p in (0, 25, 90)] == pytest.approx([10, 20, 46])
