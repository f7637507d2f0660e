"""A benchmark's figures, its JSON document, and two of them compared."""

from __future__ import annotations

import json

import msgspec
import pytest

from llmstream.cli.bench.report import (
    Report,
    compare,
    histogram,
    spread,
)
from llmstream.cli.bench.views import report_lines
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
