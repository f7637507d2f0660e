"""Values that have one form on several wires: what is read, and what is no such value."""

from __future__ import annotations

import datetime

import pytest

from llmstream.dialects.wire_values import iso_time, objects_in, unix_time

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
