"""Cumulative counts."""

from __future__ import annotations

from llmstream.dialects.token_counts import UsageCounts
from llmstream.events import Usage


def counts() -> UsageCounts:
    return UsageCounts(lambda raw: Usage(raw.get("in"), raw.get("out"), raw=raw or None))


def test_nothing_stated_is_no_count():
    assert counts().usage == Usage()


def test_a_later_count_replaces_an_earlier():
    found = counts()
    found.add({"in": 1, "out": 1})
    found.add({"out": 2})
    assert found.usage == Usage(1, 2, raw={"in": 1, "out": 2})


def test_a_null_replaces_nothing():
    found = counts()
    found.add({"in": 1, "x": None})
    found.add({"in": None})
    assert found.usage == Usage(1, raw={"in": 1, "x": None})


def test_what_is_no_object_states_nothing():
    found = counts()
    for odd in (None, 7, "x", [], {}):
        found.add(odd)
    assert found.usage == Usage()


def test_usage_read_before_is_not_changed():
    found = counts()
    found.add({"in": 1})
    early = found.usage
    found.add({"in": 2})
    assert (early.raw, found.usage.raw) == ({"in": 1}, {"in": 2})
