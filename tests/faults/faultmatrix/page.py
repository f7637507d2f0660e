"""The page of results: rows by wires, what does not apply and why, and the tests outside of the matrix."""

from __future__ import annotations

from collections.abc import Mapping

from faultmatrix.catalogue import FAULTS
from faultmatrix.rows import ELSEWHERE, NOT_OURS, ROWS, THREATS
from faultmatrix.wires import WIRES

Results = Mapping[tuple[int, str], tuple[int, int]]
"""By row and wire: how many faults led to what is promised, and how many did not."""

HEAD = """\
# Faults and their outcomes

A raw server on loopback plays each fault, or a test applies it to a stream. The outcome is compared
with what is promised: the class of the error, the events delivered before it, the time it took, and
that no task, descriptor or thread is left. One definition serves all nine wires; our own event
encoders write the bodies. A cell shows how many faults of the row had the promised outcome.

`scripts/fault_table` runs them all and writes this page. `tests/faults/test_seeded_defects.py` seeds
a defect for each row and each threat, one after another, and checks that a fault or a test detects it.
"""


def applied() -> dict[tuple[int, str], int]:
    """How many faults of each row apply to each wire."""
    counts: dict[tuple[int, str], int] = {}
    for fault in FAULTS:
        for wire in WIRES:
            if wire not in fault.not_for:
                counts[fault.row, wire] = counts.get((fault.row, wire), 0) + 1
    return counts


def all_well() -> Results:
    """The results where every fault leads to what is promised."""
    return {cell: (count, 0) for cell, count in applied().items()}


def page(results: Results) -> str:
    """The whole page."""
    parts = [HEAD, _matrix(results), _names(), _not_applicable(), _elsewhere(), _threats()]
    return "\n".join(parts)


def _matrix(results: Results) -> str:
    total, kinds = sum(applied().values()), len(FAULTS)
    lines = [f"## Rows by wires\n\n{kinds} faults and drills, {total} cells.\n"]
    lines.append(f"| # | row | {' | '.join(WIRES)} |")
    lines.append(f"|---:|---|{'---:|' * len(WIRES)}")
    for row, words in ROWS.items():
        cells = [_cell(results.get((row, wire))) for wire in WIRES]
        lines.append(f"| {row} | {words} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(result: tuple[int, int] | None) -> str:
    if result is None:
        return "–"
    passed, failed = result
    return f"{passed} ok" if not failed else f"**{failed} of {passed + failed} fail**"


def _names() -> str:
    lines = ["## The faults of each row\n"]
    for row in ROWS:
        names = [fault.name for fault in FAULTS if fault.row == row]
        if names:
            lines.append(f"- {row}: " + "; ".join(f"`{_plain(name)}`" for name in names))
    return "\n".join(lines) + "\n"


def _plain(name: str) -> str:
    return "".join(c if c.isprintable() and c != "`" else " " for c in name)


def _not_applicable() -> str:
    lines = ["## What does not apply\n"]
    for fault in FAULTS:
        reasons: dict[str, list[str]] = {}
        for wire, why in fault.not_for.items():
            reasons.setdefault(why, []).append(wire)
        for why, wires in reasons.items():
            lines.append(f"- {fault.row}, `{_plain(fault.name)}`, not for {', '.join(wires)}: {why}")
    return "\n".join(lines) + "\n"


def _elsewhere() -> str:
    lines = ["## Tests of rows outside of the matrix\n"]
    for row in ROWS:
        lines += [f"- {row}: {_links(tests)}" for key, tests in ELSEWHERE.items() if key == str(row)]
    return "\n".join(lines) + "\n"


def _threats() -> str:
    lines = ["## Threats\n", "| # | threat | tests |", "|---:|---|---|"]
    for row, words in THREATS.items():
        found = ELSEWHERE.get(f"T{row}", [])
        lines.append(f"| {row} | {words} | {_links(found) or NOT_OURS[f'T{row}']} |")
    return "\n".join(lines) + "\n"


def _links(tests: list[tuple[str, str]]) -> str:
    return ", ".join(f"`tests/{file}::{function}`" for file, function in tests)
