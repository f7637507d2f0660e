"""A benchmark's report as a table and as a plot."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from llmstream.cli.bench.report import (
    Load,
)
from llmstream.cli.bench.views import report_lines, seconds, svg


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (0.25, "250 ms"), (0.00005, "50.0 us"), (0, "0.00 us")],
)
def test_durations_have_three_digits(value, shown):
    assert seconds(value) == shown


def test_failed_or_empty_report_renders(report, sample):
    for found in (report(sample(0, error="not-found")), report(requests=4)):
        assert "\n".join(report_lines(found))
        ET.fromstring(svg(found))


def test_plot_is_well_formed_with_curves(report, sample):
    one, two = report(sample(0), sample(1, first_token_s=0.0)), report(sample(0))
    drawn = ET.fromstring(svg(one, two))
    curves = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(curves) == 4
    assert sum("stroke-dasharray" in c.attrib for c in curves) == 2
    assert "sim:<a&b>" in drawn.find("{http://www.w3.org/2000/svg}title").text


SVG = "{http://www.w3.org/2000/svg}"


def texts_of(drawn: ET.Element) -> dict[str, ET.Element]:
    return {text.text: text for text in drawn.iter(f"{SVG}text")}


@pytest.mark.parametrize("factor", [1e-6, 0.0011, 0.1, 1.0, 70.0])
def test_every_tick_of_the_plot_is_inside_it(factor, report, sample):
    found = report(*(sample(n, first_token_s=factor * n, end_s=factor * 9 * n) for n in range(1, 12)))
    drawn = ET.fromstring(svg(found))
    width = float(drawn.attrib["viewBox"].split()[2])
    ticks = {name: t for name, t in texts_of(drawn).items() if re.fullmatch(r"[\d.]+ [mu]?s", name)}
    assert len(ticks) >= 2
    for name, tick in ticks.items():
        half = len(name) * 12 * 0.6 / 2
        assert half < float(tick.attrib["x"]) < width - half
    points = " ".join(line.attrib["points"] for line in drawn.iter(f"{SVG}polyline"))
    xs = [float(x) for x in re.findall(r"([\d.]+),", points)]
    assert 0 < min(xs) <= max(xs) < width


def test_plot_names_axes_and_percentiles(report, sample):
    drawn = ET.fromstring(svg(report(*(sample(n, first_token_s=0.1 + n) for n in range(101)))))
    texts = texts_of(drawn)
    assert "time since the request was due (logarithmic scale)" in texts
    assert "share of requests" in texts
    assert {"p50", "p99"} <= set(texts)
    assert "first token: p50 50.1 s, p99 99.1 s" in texts
    marks = [title.text for title in drawn.iter(f"{SVG}title")]
    assert "first token p50: 50.1 s" in marks
    assert "end to end p99: 1.20 s" in marks


def test_a_plot_holds_no_control_characters(report, sample):
    one = msgspec.structs.replace(report(sample(0)), load=Load(model="sim:\x1b[2J\x00m", requests=1))
    assert ET.fromstring(svg(one, None)) is not None
    assert "\x1b" not in svg(one, None)
