"""Ids that are given once."""

from __future__ import annotations

from llmstream.unique_ids import StepIds, UniqueIds


def test_a_repeated_id_gets_a_number():
    ids = UniqueIds()
    assert [ids.fresh("a") for _ in range(3)] == ["a", "a.2", "a.3"]


def test_taken_number_is_skipped():
    ids = UniqueIds("_")
    ids.add("a_2")
    assert [ids.fresh("a"), ids.fresh("a"), ids.fresh("a_2"), ids.fresh("a")] == ["a", "a_3", "a_2_2", "a_4"]


def test_what_is_taken_is_known():
    ids = UniqueIds()
    ids.fresh("a")
    ids.add("b")
    assert ("a" in ids, "c" in ids, len(ids), ids.names()) == (True, False, 2, frozenset({"a", "b"}))


def test_repeated_id_gets_its_step():
    ids = StepIds()
    assert [ids.shown("a", step) for step in (0, 0, 1, 1, 2)] == ["a", "a", "1/a", "1/a", "2/a"]
    assert [ids.original(shown, 1) for shown in ("1/a", "b", "1/b")] == ["a", "b", "1/b"]


def test_earlier_ids_are_never_used():
    """Of a run that goes on where another, or its own process, has ended."""
    ids = StepIds(["a", "0/a"])
    assert ids.shown("a", 0) == ids.shown("a", 0) == "0/0/a"
    assert ids.original("0/0/a", 0) == "a"
