"""The table of fuzz/README.md: how often each target has been run, and what was found."""

from __future__ import annotations

import datetime
from pathlib import Path

README = Path(__file__).with_name("README.md")


def noted(name: str, executions: int, crashed: bool) -> None:
    """Adds a run to the row of its target."""
    lines = README.read_text("utf-8").splitlines()
    number = next(number for number, line in enumerate(lines) if line.startswith(f"| {name} |"))
    _, _, before, goal, _, crashes, _ = (cell.strip() for cell in lines[number].split("|"))
    total = int(before.replace(",", "")) + executions
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines[number] = f"| {name} | {total:,} | {goal} | {today} | {int(crashes) + crashed} |"
    README.write_text("\n".join(lines) + "\n", "utf-8")
