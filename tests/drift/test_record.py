"""The record, and what a run finds beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drift.losses import Loss
from drift.record import compared, is_new, load, save

BEFORE: dict[str, Any] = {
    "sdk": "acme 1.0",
    "types": {"Part": {"kind": 'string "a" "b"', "text": "string"}, "Old": {"x": "integer"}},
    "ends": {"stop_reason": {"end": "stop", "limit": "length"}},
    "models": ["acme-1"],
    "losses": {"Part.text": "lost"},
}
NOW: dict[str, Any] = {
    "sdk": "acme 1.1",
    "types": {
        "Part": {"kind": 'string "a" "c"', "size": "integer", "text": "string"},
        "New": {"y": "string"},
    },
    "ends": {"stop_reason": {"end": "stop", "limit": "other", "paused": "other"}},
    "models": ["acme-1", "acme-2"],
    "losses": {"Part.size": "lost"},
}


def lines(now: dict[str, Any], before: dict[str, Any] | None) -> list[str]:
    return [str(change) for change in compared(now, before)]


def test_every_difference_has_a_line() -> None:
    assert lines(NOW, BEFORE) == [
        "lost: Part.size",
        "no longer lost: Part.text",
        "changed: stop_reason 'limit': read as other, before as length",
        "new: stop_reason 'paused', read as other",
        "new: model acme-2",
        "new: type New",
        "gone: type Old",
        "new: field Part.size",
        'changed: Part.kind: +"c" -"b"',
    ]


def test_only_losses_are_bad() -> None:
    assert [str(change) for change in compared(NOW, BEFORE) if change.bad] == ["lost: Part.size"]


def test_what_is_recorded_is_no_change() -> None:
    assert compared(BEFORE, BEFORE) == []


def test_another_defect_is_a_new_loss() -> None:
    now = BEFORE | {"losses": {"Part.text": "raises KeyError: 'x'"}}
    assert lines(now, BEFORE) == ["lost: Part.text: raises KeyError: 'x'"]


def test_a_part_of_what_was_lost_is_not_new() -> None:
    """As where a decoder begins to read an object, but not all of it."""
    before = {"losses": {"Message.diagnostics": "lost"}}
    now = {"losses": {"Message.diagnostics.reason<Miss>.type": "lost"}}
    assert lines(now, before) == ["no longer lost: Message.diagnostics"]
    assert (
        lines({"losses": {"Message.diagnosticsText": "lost"}}, before)[0] == "lost: Message.diagnosticsText"
    )


def test_violations_by_rule_and_provider() -> None:
    now = {"violations": {"a rule": {"acme": {"m1": "effort=none", "m2": "plain"}, "other": {"m3": "plain"}}}}
    before = {"violations": {"a rule": {"acme": {"m1": "plain"}}, "old": {"acme": {"m1": "plain"}}}}
    assert lines(now, before) == [
        "violated: a rule: acme: m2 (plain)",
        "violated: a rule: other: m3 (plain)",
        "no longer violated: old: acme: m1",
    ]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert load("acme", tmp_path) is None
    save("acme", BEFORE, tmp_path)
    assert load("acme", tmp_path) == BEFORE


def test_a_field_is_one_line_of_the_file(tmp_path: Path) -> None:
    """So that a diff shows what an SDK has added."""
    save("acme", BEFORE, tmp_path)
    assert '   "text": "string"' in (tmp_path / "acme.json").read_text().splitlines()


def test_loss_is_new_only_if_not_in_record() -> None:
    assert is_new(Loss("Part.size", "lost", frozenset({"Part.size"})), BEFORE)
    assert not is_new(Loss("Part.text", "lost", frozenset({"Part.text"})), BEFORE)
