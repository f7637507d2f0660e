"""A benchmark's figures, its JSON document, two of them compared, and their table and plot."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from llmstream.cli.bench.report import (
    Load,
    Report,
    compare,
    histogram,
    report_lines,
    seconds,
    spread,
    svg,
)
from llmstream.display.plot import percentile


@pytest.mark.parametrize(("percent", "value"), [(0, 10), (25, 20), (50, 30), (90, 46), (100, 50)])
def test_percentiles_are_interpolated(percent, value):
    assert percentile([10, 20, 30, 40, 50], percent) == pytest.approx(value)


def test_the_only_value_is_every_percentile():
    found = spread([7.0])
    assert {found.p50, found.p90, found.p99, found.min, found.max, found.mean} == {7.0}
    assert spread([]) is None


def test_a_histogram_counts_every_value_once():
    assert [b.size for b in histogram([0, 1, 2, 3, 4, 5, 6, 7, 8, 10], bins=5)] == [2, 2, 2, 2, 2]
    assert histogram([]) == []
    assert histogram([3.0, 3.0]) == [(3.0, 3.0, 2)]


def test_wide_range_has_equal_ratio_bins():
    bins = histogram([1.0, 11.0, 101.0, 1000.0], bins=3)
    assert [b.size for b in bins] == [1, 1, 2]
    assert [round(b.high) for b in bins] == [10, 100, 1000]


def test_a_report_has_known_answers(report, sample):
    found = report(sample(1), sample(0, first_token_s=0.4), sample(2, error="overloaded", end_s=99.0))
    assert (found.completed, found.errors) == (2, {"overloaded": 1})
    assert (found.requests_per_s, found.tokens_per_s) == (1.0, 20.0)
    assert found.first_token_s.p50 == pytest.approx(0.3)
    assert found.end_to_end_s.max == 1.2
    assert found.between_tokens_s.count == 20
    assert found.request_tokens_per_s.p50 == 20.0
    assert [s.number for s in found.samples] == [0, 1, 2]


def test_fragments_stand_in_for_tokens(report, sample):
    """The server reported no token counts."""
    found = report(sample(0, output_tokens=None))
    assert (found.tokens_by, found.tokens_per_s) == ("fragments", 5.5)
    assert any("tokens: number of fragments" in line for line in report_lines(found))


def test_a_report_survives_json(report, sample):
    found = report(sample(0), sample(1, error="not-found"))
    again = msgspec.json.decode(found.to_json(), type=Report)
    assert again == found
    assert json.loads(found.to_json())["firstTokenS"]["p50"] == 0.2


def test_two_runs_are_compared_by_ratio(report, sample):
    changes = {c.name: c for c in compare(report(sample(0)), report(sample(0, first_token_s=0.6)))}
    assert changes["first token p50"].ratio == pytest.approx(3.0)
    assert changes["end to end p99"].ratio == pytest.approx(1.0)
    assert changes["errors"].ratio is None


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
