"""Values with one form on several wires: times, token counts, cumulative counts."""

from __future__ import annotations

import datetime

import pytest

from llmstream.dialects.wire_values import UsageCounts, added, iso_time, objects_in, token_count, unix_time
from llmstream.events import Usage

NOON = datetime.datetime(2026, 1, 2, 12, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize("seconds", [1767355200, 1767355200.0])
def test_seconds_are_a_time_in_utc(seconds: float) -> None:
    assert unix_time(seconds) == NOON


@pytest.mark.parametrize(
    "value", [None, 0, -1, "1767355200", 1767355200000, float("nan"), float("inf"), 10**400, {}]
)
def test_other_values_are_no_unix_time(value: object) -> None:
    assert unix_time(value) is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T12:00:00Z",
        "2026-01-02T14:00:00+02:00",
        "2026-01-02T12:00:00.0Z",
        "2026-01-02T12:00:00.000000455Z",
    ],
)
def test_iso_times_have_any_offset(text: str) -> None:
    assert iso_time(text) == NOON


@pytest.mark.parametrize("value", [None, "", "noon", "2026-13-01T00:00:00Z", "\ud800", 1767355200, []])
def test_other_values_are_no_iso_time(value: object) -> None:
    assert iso_time(value) is None


def test_only_objects_of_a_list_are_read() -> None:
    assert objects_in([{"a": 1}, None, "b", [{}], {}]) == [{"a": 1}, {}]


@pytest.mark.parametrize("value", [None, {}, {"a": {}}, "[{}]", 1])
def test_other_values_hold_no_objects(value: object) -> None:
    assert objects_in(value) == []


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3),
        (3.0, 3),
        ("3", 3),
        (0, 0),
        (True, None),
        (1.5, None),
        (float("inf"), None),
        ("x", None),
        (None, None),
    ],
)
def test_counts(value, count):
    assert token_count(value) == count


def test_what_is_known_is_added():
    assert (added(1, 2), added(None, 2), added(1, None), added(None, None)) == (3, 2, 1, None)


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
