"""The page of results names every row, fault, wire and threat, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from faultmatrix.catalogue import FAULTS
from faultmatrix.page import all_well, page
from faultmatrix.rows import ELSEWHERE, NOT_OURS, ROWS, THREATS
from faultmatrix.wires import WIRES

ROOT = Path(__file__).resolve().parents[2]


def test_page_equals_catalogue_and_all_pass() -> None:
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8") == page(all_well())


def test_the_page_names_every_row_and_wire() -> None:
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    assert all(f"| {row} | " in text for row in ROWS)
    assert all(wire in text for wire in WIRES)
    assert list(ROWS) == list(range(1, 53))
    assert list(THREATS) == list(range(1, 21))


def test_every_row_has_a_test() -> None:
    without = set(ROWS) - {fault.row for fault in FAULTS} - {int(key) for key in ELSEWHERE if key.isdigit()}
    assert without == set()
    assert {row for row in THREATS if f"T{row}" not in ELSEWHERE | NOT_OURS} == set()


def test_fault_names_are_unique_in_a_row() -> None:
    names = [(fault.row, fault.name) for fault in FAULTS]
    assert len(set(names)) == len(names) >= 50


def test_the_tests_that_are_named_exist() -> None:
    for tests in ELSEWHERE.values():
        for file, function in tests:
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert re.search(rf"def {function}\(", text), (file, function)
