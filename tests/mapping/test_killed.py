"""A map whose process is killed goes on from its file. The full form: `scripts/drills map`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mapping.drill import AT_ONCE, run


@pytest.mark.slow
async def test_killed_map_asks_no_row_twice(tmp_path: Path) -> None:
    """But for those under way, whose answers nobody has read."""
    figures = await run(tmp_path, rows=600, kill_every=200)
    assert figures.kills >= 2
    assert figures.twice <= AT_ONCE * figures.kills
